"""Files that are read again once they have changed (edge)."""

import os
from collections.abc import Iterable
from pathlib import Path

_State = tuple[int, int, int]


class ChangingFiles:
    """Compares files with their states at the last look."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Look at the files for the first time."""
        self._paths = tuple(paths)
        self._states: tuple[_State, ...] | None = self._look()

    def have_changed(self) -> bool:
        """Whether a file has changed since the last look."""
        before, self._states = self._states, self._look()
        return self._states != before

    def forget(self) -> None:
        """Let the next look find changed files."""
        self._states = None

    def _look(self) -> tuple[_State, ...]:
        return tuple(_state_of(each) for each in self._paths)


def _state_of(path: Path) -> _State:
    try:
        found = os.stat(path)  # noqa: PTH116 - once per connection
    except OSError:
        return (0, 0, 0)
    # The time of the last change of owner and mode, too: a file may become readable.
    return found.st_ctime_ns, found.st_ino, found.st_size
