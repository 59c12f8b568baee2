"""Files that are out of use and wait to be removed (edge).

They wait so that a reader which is about to open one by its old name, and an operator who acts in
time, still find it. A crash forgets the list; the next start removes what it finds.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock


class DeletedFiles:
    """Paths in the order in which they went out of use.

    One thread adds, and another one removes: giving back the blocks of a large file takes long.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._new: list[Path] = []
        # Guards `_new` only; all else belongs to the thread that removes.
        self._lock = Lock()
        self._waiting: list[tuple[int, Path]] = []
        self.add(paths)

    def add(self, paths: Iterable[Path]) -> None:
        """Take files or directories in; their time begins with the next call of `remove_due`."""
        with self._lock:
            self._new += paths

    def remove_due(
        self,
        clock_ms: int,
        delay_ms: int,
        remove: Callable[[Path], None] = lambda path: path.unlink(missing_ok=True),
    ) -> None:
        """Remove what has waited for `delay_ms`, by a clock that is never set.

        Raises:
            OSError: something could not be removed; the others were, and it waits on.
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
                failure = failure or error
                waiting.append((since_ms, path))
        self._waiting = waiting
        if failure is not None:
            raise failure
