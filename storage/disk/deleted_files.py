"""Obsolete files that wait for removal (edge).

The delay lets a reader that is about to open a file, and an operator who acts in time, still find
it. A crash loses the list; the next start removes the files that it finds.
"""

import errno
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Final

CHANGED_ERRORS: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY})
"""Errors of the removal of a directory in which somebody removed or wrote a file meanwhile."""


class DeletedFiles:
    """Paths in the order in which they became obsolete.

    One thread adds paths and another one removes files, because freeing the blocks of a large file
    takes long.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._new: list[Path] = []
        # Guards `_new` only; everything else belongs to the thread that removes files.
        self._lock = Lock()
        self._waiting: list[tuple[int, Path]] = []
        self.add(paths)

    def add(self, paths: Iterable[Path]) -> None:
        """Add files or directories; their delay starts with the next call of `remove_due`."""
        with self._lock:
            self._new += paths

    def remove_due(
        self,
        clock_ms: int,
        delay_ms: int,
        remove: Callable[[Path], None] = lambda path: path.unlink(missing_ok=True),
    ) -> None:
        """Remove the paths that have waited for `delay_ms`, by a monotonic clock.

        A directory that changes during its removal keeps waiting.

        Raises:
            OSError: a path could not be removed. It keeps waiting; the others were removed.
        """
        with self._lock:
            new, self._new = self._new, []
        self._waiting += [(clock_ms, path) for path in new]
        waiting, failure = [], None
        for since_ms, path in self._waiting:
            if clock_ms - since_ms < delay_ms:
                waiting.append((since_ms, path))
                continue
            try:
                remove(path)
            except OSError as error:
                if error.errno not in CHANGED_ERRORS:
                    failure = failure or error
                waiting.append((since_ms, path))
        self._waiting = waiting
        if failure is not None:
            raise failure
