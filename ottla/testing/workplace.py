"""The directory of the servers of a test (edge)."""

import os
import shutil
import tempfile
from pathlib import Path

from ottla.testing.errors import StateError


class Workplace:
    """A directory: the user's, which stays, or a temporary one, which `close` deletes."""

    def __init__(self, chosen: Path | str | None) -> None:
        self._chosen = None if chosen is None else Path(chosen)
        self._temporary: Path | None = None
        self._owner: int | None = None

    @property
    def is_inherited(self) -> bool:
        """Whether the parent of this forked process has opened it, and uses it."""
        return self._owner not in (None, os.getpid())

    def require_closed(self) -> None:
        """Refuse to be opened a second time.

        Raises:
            StateError: servers use the directory.
        """
        if self._owner is not None:
            raise StateError("the servers were started already: leave their `with` block first")

    @property
    def is_kept(self) -> bool:
        """Whether the directory stays."""
        return self._chosen is not None

    def open(self) -> Path:
        """Create the directory and return its absolute path.

        Raises:
            OSError: it cannot be created.
            ValueError: its path has a comma, which would separate two log directories.
        """
        self._owner = os.getpid()
        if self._chosen is None:
            path = self._temporary = Path(tempfile.mkdtemp(prefix="ottla-"))
        else:
            path = self._chosen.absolute()
        if "," in str(path):
            raise ValueError(f"{path} has a comma, which separates log directories: choose another")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def close(self) -> None:
        """Delete a temporary directory."""
        self._owner = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
