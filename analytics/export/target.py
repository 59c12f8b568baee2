"""The directory of an export (edge).

A file is written under a temporary name and synced. Then its line is appended to the manifest and
synced: from there on the file belongs to the export. Then it gets its name. A program that was
killed in between has left a temporary file, to which `open_target` gives its name if the manifest
has its line, and which it removes otherwise. A reader of the directory therefore never sees a
record twice, nor one that is exported again later.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from pyarrow import parquet

from analytics.errors import RecordsError, RecordsUsageError
from analytics.export.manifest import (
    FILE_NAME,
    Entry,
    Manifest,
    Settings,
    encode_entry,
    encode_settings,
    is_finished,
    is_temporary,
    leftovers,
    read_manifest,
    temporary_name,
)

_CODEC: Final = "zstd"


class Target:
    """An open target. Nothing else may write to it until it is closed."""

    def __init__(self, directory: Path, file: BinaryIO, manifest: Manifest) -> None:
        self._directory = directory
        self._file = file
        self.manifest = manifest

    @contextlib.contextmanager
    def new_file(self, folder: str, first_offset: int, schema: Any) -> Iterator["NewFile"]:
        """Create the file of a partition that begins at `first_offset`; see `commit`.

        If the block fails, the file is removed.

        Raises:
            OSError: the file cannot be written.
        """
        path = self._directory / folder / temporary_name(first_offset)
        _make_directories(path.parent, self._directory)
        file = NewFile(path, schema)
        try:
            yield file
        except BaseException:
            file.abandon()
            raise

    def commit(self, entry: Entry, file: "NewFile | None") -> None:
        """Make the offsets of the entry, and its file, part of the export.

        Raises:
            OSError: the target cannot be written. Whether the entry is part of the export is known
                when the target is opened again.
        """
        if file is not None:
            sync_directory(file.path.parent)
        self._append(encode_entry(entry))
        self.manifest.add(entry)
        if file is not None and entry.file is not None:
            file.path.replace(self._directory / entry.file)
            sync_directory(file.path.parent)

    def begin(self, settings: Settings) -> None:
        """Write the settings of a new export, or compare them with an earlier run's.

        Raises:
            RecordsUsageError: they differ.
        """
        known = self.manifest.settings
        if known is None:
            self._append(encode_settings(settings))
            self.manifest.settings = settings
            sync_directory(self._directory)
        elif known != settings:
            reach = "with" if known.to_log_end else "without"
            raise RecordsUsageError(
                f"{self._directory} was exported with isolation level {known.isolation_level}, "
                f"{reach} --to-log-end: use the same options, or a new directory"
            )

    def _append(self, line: bytes) -> None:
        # An earlier append may have been interrupted.
        self._file.seek(self.manifest.size_bytes)
        self._file.truncate()
        left = memoryview(line)
        while left:
            # A disk that becomes full takes a part of the line.
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())
        self.manifest.size_bytes += len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


class NewFile:
    """A Parquet file that is being written under its temporary name."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path = path
        self._file = path.open("wb")
        self._writer = parquet.ParquetWriter(self._file, schema, compression=_CODEC)
        self.records = 0
        self.unpacked_bytes = 0
        """Size of the records in memory, before their compression."""

    def write(self, batch: Any) -> None:
        """Append a record batch."""
        self._writer.write_batch(batch)
        self.records += batch.num_rows
        self.unpacked_bytes += batch.nbytes

    def finish(self) -> int:
        """Write the end of the file, sync it, and return its size."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = os.fstat(self._file.fileno()).st_size
        self._file.close()
        return size_bytes

    def abandon(self) -> None:
        """Remove the file, if that is possible; the next run removes it otherwise."""
        # The disk may be full, so that the end of the file cannot be written.
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()


def open_target(directory: Path) -> Target:
    """Open the directory of an export, and complete its last commit after a kill.

    Raises:
        RecordsUsageError: the directory holds something else.
        RecordsError: another program exports to it, or its manifest is damaged.
        OSError: it cannot be read or written.
    """
    path = directory / FILE_NAME
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise RecordsUsageError(
                f"{directory} holds something else than an export: choose a new directory"
            )
    # Unbuffered, so that nothing is written when it is closed after a failure.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    file = os.fdopen(descriptor, "r+b", buffering=0)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordsError(f"another export to {directory} is running") from None
        manifest = read_manifest(path.read_bytes())
        _complete(directory, manifest)
    except BaseException:
        file.close()
        raise
    return Target(directory, file, manifest)


def _complete(directory: Path, manifest: Manifest) -> None:
    """Name the files that the manifest has a line of, and remove other temporary files.

    Raises:
        RecordsError: a file lacks its line, so that the export would repeat its records.
    """
    committed = leftovers(manifest.entries)
    finished = {entry.file for entry in manifest.entries}
    for folder in sorted(directory.glob("topic=*/partition=*")):
        paths = list(folder.iterdir())
        for path in paths:
            name = str(path.relative_to(directory))
            if is_finished(path.name) and name not in finished:
                raise RecordsError(
                    f"{name} is missing in {FILE_NAME}: restore a copy of it, or export to a new "
                    "directory"
                )
        for path in filter(lambda each: is_temporary(each.name), paths):
            entry = committed.get(str(path.relative_to(directory)))
            if entry is None or entry.file is None or (directory / entry.file).exists():
                path.unlink()
            else:
                path.replace(directory / entry.file)
            sync_directory(folder)


def _make_directories(folder: Path, root: Path) -> None:
    """Create a folder below `root`, so that it survives a loss of power."""
    missing = [each for each in (folder.parent, folder) if each != root and not each.exists()]
    for each in missing:
        each.mkdir(exist_ok=True)
        sync_directory(each.parent)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
