"""The files of one segment as a unit: creation, renaming, deletion, sync (edge)."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.disk.checkpoint import sync_data
from storage.disk.layout import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SEGMENT_SUFFIXES,
    segment_file,
)
from storage.segment.log_file import LogFile


def rename_back(renamed: Mapping[Path, Path]) -> None:
    """Undo renames (source to target) after the next one failed, as far as possible.

    Otherwise readers, and the next attempt, would find half of a segment under its name.
    """
    for source, target in renamed.items():
        with suppress(OSError):
            target.rename(source)


def _sync_if_present(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        sync_data(descriptor)
    finally:
        os.close(descriptor)


class SegmentFiles:
    """The files in `directory` with names that begin with the 20 digits of `base_offset`."""

    __slots__ = ("base_offset", "directory")

    def __init__(self, directory: Path, base_offset: Offset) -> None:
        self.directory = directory
        self.base_offset = base_offset

    def create_log(self, config: LogConfig) -> LogFile:
        """Create an empty log file; any existing file of this segment is removed."""
        self.remove()
        file = LogFile(self._log_path(), 0, is_new=True)
        if config.preallocate:
            file.reserve(config.segment_bytes)
        return file

    def remove(self) -> None:
        """Remove all files; readers that hold a region of the log can finish."""
        for path in [*self._paths(), self._snapshot_path()]:
            path.unlink(missing_ok=True)

    def open_log(self, size_bytes: int) -> LogFile:
        """Open the existing log file."""
        return LogFile(self._log_path(), size_bytes)

    def mark_deleted(self) -> list[Path]:
        """Rename all files so that a start ignores them; return their new names.

        Readers that hold a region of the log can finish.

        Raises:
            OSError: a rename failed; nothing has changed.
        """
        return self._rename([*self._paths(), self._snapshot_path()], "", DELETED_SUFFIX)

    def change_state(self, old: str, new: str) -> list[Path]:
        """Rename all files, the log first, to another second suffix; return their new names.

        Existing files of the new names are replaced. storage/log/leftover.py handles a crash in
        between. The producer snapshot keeps its name, because it describes the log before the
        segment.
        """
        return self._rename(self._paths(), old, new)

    def _rename(self, paths: list[Path], old: str, new: str) -> list[Path]:
        renamed: dict[Path, Path] = {}
        try:
            for path in paths:
                source = Path(f"{path}{old}")
                with suppress(FileNotFoundError):
                    renamed[source] = source.rename(path.with_name(path.name + new))
        except OSError:
            rename_back(renamed)
            raise
        return list(renamed.values())

    def modified_ms(self) -> int:
        """Return the modification time of the log file."""
        return self._log_path().stat().st_mtime_ns // 1_000_000

    def sync(self) -> None:
        """Block until all files are on disk."""
        for path in self._paths():
            _sync_if_present(path)
        self.sync_snapshot()

    def sync_snapshot(self) -> None:
        """Block until the producer snapshot is on disk, if there is one."""
        _sync_if_present(self._snapshot_path())

    def _log_path(self) -> Path:
        return segment_file(self.directory, self.base_offset, LOG_SUFFIX)

    def _snapshot_path(self) -> Path:
        return segment_file(self.directory, self.base_offset, PRODUCER_SNAPSHOT_SUFFIX)

    def _paths(self) -> list[Path]:
        return [
            segment_file(self.directory, self.base_offset, suffix) for suffix in SEGMENT_SUFFIXES
        ]
