"""The directory of the servers of a test (edge)."""

import shutil
import tempfile
from pathlib import Path


class Workplace:
    """A directory: the user's, which stays, or a temporary one, which `close` deletes."""

    def __init__(self, chosen: Path | str | None) -> None:
        self._chosen = None if chosen is None else Path(chosen)
        self._temporary: Path | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the directory stays."""
        return self._chosen is not None

    def open(self) -> Path:
        """Create the directory and return its absolute path.

        Raises:
            OSError: it cannot be created.
        """
        if self._chosen is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="ottla-"))
            return self._temporary
        self._chosen.mkdir(parents=True, exist_ok=True)
        return self._chosen.absolute()

    def close(self) -> None:
        """Delete a temporary directory."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
