"""Files by path, or by URI through pyarrow's file systems for HDFS, S3 and GCS (edge).

Files are read, never memory-mapped: a broker may truncate a file at any time, and access to a
truncated mapping would kill the process. Every failure is an OSError that names the file.
"""

import os
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyarrow import fs

from analytics.place import child_of, is_remote, split_store, without_end
from logcheck import local_file
from logcheck.replica_files import Entry

# Reads from a remote store are larger than local ones, because each costs a round trip.
REMOTE_CHUNK_BYTES: Final = 4 * 1024 * 1024
_MAX_STORES: Final = 16


def is_file(place: str) -> bool:
    """Whether `place` is a file and not a directory."""
    if not is_remote(place):
        return Path(place).is_file()
    store, path = _resolve(place)
    return bool(store.get_file_info([path])[0].type == fs.FileType.File)


def real_place(place: str) -> str:
    """Return the place without symbolic links; places with one result are one directory."""
    return without_end(place) if is_remote(place) else os.path.realpath(place)


def list_directory(place: str) -> list[Entry]:
    """Return the direct entries of a directory, sorted by name.

    Raises:
        OSError: the directory does not exist or cannot be read.
    """
    if not is_remote(place):
        return local_file.list_directory(place)
    store, path = _resolve(place)
    infos = store.get_file_info(fs.FileSelector(path))
    entries = [
        Entry(
            info.base_name,
            child_of(place, info.base_name),
            info.type == fs.FileType.Directory,
            info.size or 0,
        )
        for info in infos
    ]
    return sorted(entries, key=lambda entry: entry.name)


def states_in(place: str) -> dict[str, tuple[int, int]]:
    """Return the inode and the time of the last change of each local file, by its name."""
    return {} if is_remote(place) else local_file.states_in(place)


def read_bytes(place: str) -> bytes:
    """Return all bytes of a small file.

    Raises:
        OSError: the file does not exist, cannot be read, or is too large.
    """
    with OpenFile(place) as file:
        return local_file.read_whole(file, place)


class OpenFile:
    """An open file with random access."""

    def __init__(self, place: str) -> None:
        source = _RemoteFile(place) if is_remote(place) else local_file.FileSource(place)
        self._source = source
        self.chunk_bytes = source.chunk_bytes
        self.size_bytes = source.size_bytes

    def read_at(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, fewer at the end of the file."""
        return self._source.read_at(position, size)

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file had this size when it was opened; later appends are not noticed."""
        return size_bytes <= self.size_bytes

    def behind_hole(self, position: int) -> int:
        """Return where a hole at `position` ends, or `position`; a hole reads as zeros."""
        return self._source.behind_hole(position)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.__exit__(kind, error, trace)


class _RemoteFile:
    """An open file of a remote store."""

    chunk_bytes = REMOTE_CHUNK_BYTES

    def __init__(self, place: str) -> None:
        store, path = _resolve(place)
        self._file = store.open_input_file(path)
        self.size_bytes: int = self._file.size()

    def read_at(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, fewer at the end of the file."""
        return memoryview(self._file.read_at(size, position))

    def behind_hole(self, position: int) -> int:
        """Return `position`: remote files have no holes."""
        return position

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def _resolve(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of `place`, and the path of `place` in it.

    Raises:
        OSError: the store does not exist, or its options are wrong.
    """
    uri, path = split_store(place)
    store, root = _open_store(uri)
    return store, f"{root.rstrip('/')}/{path}" if path else root


@lru_cache(maxsize=_MAX_STORES)
def _open_store(uri: str) -> tuple[fs.FileSystem, str]:
    """Open a store; each has its own connections, so a process opens it only once."""
    try:
        store, root = fs.FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError) as error:
        raise OSError(f"{str(error).splitlines()[0]}") from error
    return store, root
