"""Virtual environments of their own, for programs with many packages that nothing else here uses.

`make interop` installs them once into the cache. Tests that need one are skipped without it.
"""

import os
import subprocess
import venv
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


class OwnEnvironment:
    """A virtual environment in the cache, with the packages that a file lists."""

    def __init__(self, name: str, versions: Path) -> None:
        """`versions` lists the packages with their versions, as pip reads them."""
        self._directory = CACHE / name
        self._versions = versions
        self._ready = self._directory / ".ready"
        self.python = self._directory / "bin" / "python"

    def is_ready(self) -> bool:
        """Whether it was installed, with these or other versions."""
        return self._ready.exists()

    def install(self) -> None:
        """Create the environment, unless it exists with these versions."""
        versions = self._versions.read_text()
        if self._ready.exists() and self._ready.read_text() == versions:
            return
        venv.create(self._directory, with_pip=True, clear=True)
        command = [str(self.python), "-m", "pip", "install", "-q", "-r", str(self._versions)]
        if subprocess.run(command, check=False).returncode == 0:
            self._ready.write_text(versions)
