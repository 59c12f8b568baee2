"""Edge: files by path or URI, through pyarrow's file systems (local, HDFS, S3, GCS).

Files are read, never mapped: a broker may truncate one meanwhile, and a mapping would then take the
process down. Every failure is an OSError that names the file.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from pyarrow import fs

# A local chunk stays in the processor's cache until it was decoded (`python -m benchmarks audit`);
# a store on the network is asked seldom.
LOCAL_CHUNK_BYTES: Final = 256 * 1024
REMOTE_CHUNK_BYTES: Final = 4 * 1024 * 1024
_REMOTE_MARK: Final = "://"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int


def is_remote(place: str) -> bool:
    """Whether `place` is a URI rather than a path."""
    return _REMOTE_MARK in place


def is_file(place: str) -> bool:
    """Whether `place` is a file, and no directory."""
    store, path, _ = _resolve(place)
    return bool(store.get_file_info([path])[0].type == fs.FileType.File)


def list_directory(place: str) -> list[Entry]:
    """What is directly in the directory, by name.

    Raises:
        OSError: there is no such directory, or it may not be read.
    """
    store, path, prefix = _resolve(place)
    infos = store.get_file_info(fs.FileSelector(path))
    entries = [
        Entry(
            info.base_name,
            prefix(info.path),
            info.type == fs.FileType.Directory,
            info.size or 0,
        )
        for info in infos
    ]
    return sorted(entries, key=lambda entry: entry.name)


def read_bytes(place: str) -> bytes:
    """All of a small file.

    Raises:
        OSError: it is not there, or may not be read.
    """
    with OpenFile(place) as file:
        return bytes(file.read_at(0, file.size_bytes))


class OpenFile:
    """A file that is read at positions."""

    def __init__(self, place: str) -> None:
        store, path, _ = _resolve(place)
        self._file = store.open_input_file(path)
        self.chunk_bytes = REMOTE_CHUNK_BYTES if is_remote(place) else LOCAL_CHUNK_BYTES
        self.size_bytes: int = self._file.size()

    def read_at(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes from `position` on; fewer where the file ends."""
        return memoryview(self._file.read_at(size, position))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def _resolve(place: str) -> tuple[fs.FileSystem, str, "_Prefix"]:
    if is_remote(place):
        store, path = fs.FileSystem.from_uri(place)
        return store, path, _Prefix(place, path)
    return fs.LocalFileSystem(), place, _Prefix("", "")


class _Prefix:
    """Makes a URI again of a path inside a store, with the options that the first URI had."""

    def __init__(self, uri: str, path: str) -> None:
        start, mark, options = uri.partition("?")
        self._before = start.removesuffix("/").removesuffix(path.removesuffix("/"))
        self._after = mark + options
        self._is_local = not uri

    def __call__(self, path: str) -> str:
        return path if self._is_local else f"{self._before}{path}{self._after}"
