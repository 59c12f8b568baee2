"""Files that are out of use and wait to be removed (edge).

They wait so that a reader which is about to open one by its old name, and an operator who acts in
time, still find it. A crash forgets the list; the next start removes what it finds.
"""

from collections.abc import Iterable
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
        """Take files or directories in; their time begins with the next call of `take_due`."""
        with self._lock:
            self._new += paths

    def take_due(self, now_ms: int, delay_ms: int) -> list[Path]:
        """Return those that have waited for `delay_ms`, and forget them."""
        with self._lock:
            new, self._new = self._new, []
        self._waiting += [(now_ms, path) for path in new]
        due = [path for since_ms, path in self._waiting if now_ms - since_ms >= delay_ms]
        self._waiting = [each for each in self._waiting if now_ms - each[0] < delay_ms]
        return due

    def remove_due(self, now_ms: int, delay_ms: int) -> None:
        """Remove the files that have waited for `delay_ms`.

        Raises:
            OSError: a file could not be removed; the next start finds it.
        """
        for path in self.take_due(now_ms, delay_ms):
            path.unlink(missing_ok=True)
