"""The manifest of a backup (decision): the files in it, with their sizes and digests.

It is JSON in the file `manifest.json`, written last: a backup without one is not complete.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Final

FILE_NAME: Final = "manifest.json"
FORMAT: Final = 1
MAX_DIRECTORIES: Final = 1_000
MAX_FILES: Final = 10_000_000
MAX_MANIFEST_BYTES: Final = 4 * 1024**3
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class ManifestError(ValueError):
    """The text is no manifest of a backup; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpFile:
    """A file: its path below the log directory, its size and the SHA-256 of its content."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpDirectory:
    """A log directory: its source, its folder in the backup, and its files."""

    source: str
    folder: str
    was_in_use: bool
    """Whether a broker or coordinator ran on it during the copy."""
    files: tuple[BackedUpFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of a backup. Times are in UTC, in the form of ISO 8601."""

    began: str
    ended: str
    directories: tuple[BackedUpDirectory, ...]

    @property
    def file_count(self) -> int:
        """The number of files."""
        return sum(len(each.files) for each in self.directories)

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(file.size_bytes for each in self.directories for file in each.files)


def write_manifest(manifest: Manifest) -> str:
    """Return the manifest as JSON."""
    return json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1) + "\n"


def read_manifest(text: str) -> Manifest:
    """Return the manifest in `text`.

    Raises:
        ManifestError: the text is damaged, of another format, or names a path outside the backup.
    """
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ManifestError("its arrays and objects are nested too deeply") from None
    try:
        if fields["format"] != FORMAT:
            raise ManifestError(f"its format is {fields['format']!r}, this version reads {FORMAT}")
        directories = tuple(_directory(each) for each in _limited(fields["directories"]))
        manifest = Manifest(
            began=_text(fields["began"]), ended=_text(fields["ended"]), directories=directories
        )
    except (KeyError, TypeError) as error:
        raise ManifestError(f"a field is missing or of a wrong type: {error}") from None
    if manifest.file_count > MAX_FILES:
        raise ManifestError(f"it has {manifest.file_count} files, more than {MAX_FILES}")
    folders = [each.folder for each in directories]
    if len(set(folders)) != len(folders):
        raise ManifestError("two directories have the same folder")
    return manifest


def _limited(directories: Sequence[Any]) -> Sequence[Any]:
    if len(directories) > MAX_DIRECTORIES:
        raise ManifestError(f"it has {len(directories)} directories, more than {MAX_DIRECTORIES}")
    return directories


def _directory(fields: Any) -> BackedUpDirectory:
    files = tuple(
        BackedUpFile(
            path=_path(each["path"]),
            size_bytes=_size(each["size_bytes"]),
            sha256=_digest(each["sha256"]),
        )
        for each in fields["files"]
    )
    if len({file.path for file in files}) != len(files):
        raise ManifestError("two files have the same path")
    return BackedUpDirectory(
        source=_text(fields["source"]),
        folder=_path(fields["folder"]),
        was_in_use=bool(fields["was_in_use"]),
        files=files,
    )


def _path(value: Any) -> str:
    """Return a path that stays below its directory."""
    path = PurePosixPath(_text(value))
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in str(path):
        raise ManifestError(f"the path {value!r} does not stay in its directory")
    try:
        str(path).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # JSON can spell half of a UTF-16 surrogate pair, which no file system stores.
        raise ManifestError(f"the path {value!r} cannot be the name of a file") from None
    return str(path)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _size(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ManifestError(f"the size {value!r} is not a number of bytes")
    return value


def _digest(value: Any) -> str:
    if not _SHA256.fullmatch(_text(value)):
        raise ManifestError(f"{value!r} is not a SHA-256")
    return str(value)
