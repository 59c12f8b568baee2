"""A copy of a log dir with hard links, taken while its broker runs.

The checkpoints are copied first. The partition's files are linked a number of changes of files
later, in the middle of any operation. From then on the broker's writes to a linked file show up in
the copy, and its renames do not. A truncation spoils the copy.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from tests.unit.storage.faults import Faults

_PARTITION: Final = "orders-0"


class LiveCopy:
    """At most one copy, in `root`; `faults` counts the changes of files."""

    def __init__(self, root: Path, faults: Faults) -> None:
        self.root = root
        self.is_complete = False
        self._source: Path | None = None
        self._origin: Path | None = None
        self._delay = 0
        self._count = faults.step
        faults.step = self._on_change  # type: ignore[method-assign]

    def begin(self, source: Path, delay: int) -> None:
        """Copy the checkpoints of `source`, and its partition after `delay` changes."""
        self._source = None
        self.is_complete = False
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        for path in source.glob("*-checkpoint"):
            shutil.copyfile(path, self.root / path.name)
        self._source = self._origin = source
        self._delay = delay

    def on_truncation(self, source: Path) -> None:
        """Give up a copy of `source`: its linked files were cut and extended in place."""
        if source == self._origin:
            self._source = None
            self.is_complete = False

    def _on_change(self) -> None:
        self._count()
        source = self._source
        if source is None:
            return
        self._delay -= 1
        if self._delay >= 0:
            return
        self._source = None
        if not (source / _PARTITION).is_dir():
            return
        (self.root / _PARTITION).mkdir()
        for entry in os.scandir(source / _PARTITION):
            os.link(entry.path, self.root / _PARTITION / entry.name)
        self.is_complete = True
