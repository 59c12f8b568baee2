"""Files that are out of use and wait to be removed (edge).

They wait so that a reader which is about to open one by its old name, and an operator who acts in
time, still find it. A crash forgets the list; the next start removes what it finds.
"""

from collections.abc import Iterable
from pathlib import Path


class DeletedFiles:
    """Paths in the order in which they went out of use."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._waiting: list[tuple[int | None, Path]] = []
        self.add(paths)

    def add(self, paths: Iterable[Path]) -> None:
        """Take files in; their time begins with the next call of `remove_due`."""
        self._waiting += [(None, path) for path in paths]

    def remove_due(self, now_ms: int, delay_ms: int) -> None:
        """Remove the files that have waited for `delay_ms`.

        Raises:
            OSError: a file could not be removed; it stays in the list.
        """
        dated = [(now_ms + delay_ms if due is None else due, path) for due, path in self._waiting]
        for due_ms, path in dated:
            if due_ms <= now_ms:
                path.unlink(missing_ok=True)
        self._waiting = [(due_ms, path) for due_ms, path in dated if due_ms > now_ms]
