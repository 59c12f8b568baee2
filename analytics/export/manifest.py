"""The manifest of an export: the offsets that are exported, and the files with them (decision).

A line is the CRC-32C of the rest of the line in eight hexadecimal digits, a space, and a JSON
object. The first line holds the settings, each further line one file, or offsets without a visible
record. Lines are only appended: a last line that is incomplete was never part of the manifest.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from crc32c import crc32c

from analytics.errors import RecordsError
from kafkawire.ids import TopicPartition

FILE_NAME: Final = "_manifest.jsonl"
VERSION: Final = 1
_TEMPORARY: Final = re.compile(r"\.[0-9]{20}\.tmp")
_FINISHED: Final = re.compile(r"[0-9]{20}-[0-9]{20}\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an export, which later runs must share."""

    isolation_level: str
    to_log_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file; without records only the offsets that were read."""

    topic: str
    partition: int
    topic_id: str | None
    first_offset: int
    next_offset: int
    """Exclusive; the next file begins here, or later."""
    records: int
    size_bytes: int

    @property
    def folder(self) -> str:
        """The folder of the partition, relative to the target."""
        return f"topic={self.topic}/partition={self.partition}"

    @property
    def file(self) -> str | None:
        """The file, relative to the target; None without records."""
        if not self.records:
            return None
        return f"{self.folder}/{self.first_offset:020d}-{self.next_offset:020d}.parquet"

    @property
    def temporary_file(self) -> str:
        """The name under which the file was written."""
        return f"{self.folder}/{temporary_name(self.first_offset)}"


@dataclass(slots=True)
class Manifest:
    """The settings and entries so far."""

    settings: Settings | None = None
    entries: list[Entry] = field(default_factory=list)
    size_bytes: int = 0
    """Size of the complete lines; later bytes of the file are an interrupted append."""

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the first offset that is not exported yet; None if there is no entry."""
        last = self.last_entry(partition)
        return None if last is None else last.next_offset

    def last_entry(self, partition: TopicPartition) -> Entry | None:
        """Return the newest entry of the partition."""
        return self._last.get(partition)

    def add(self, entry: Entry) -> None:
        """Add an entry.

        Raises:
            RecordsError: it overlaps an earlier one.
        """
        partition = TopicPartition(entry.topic, entry.partition)
        last = self._last.get(partition)
        if entry.next_offset <= entry.first_offset or (
            last is not None and entry.first_offset < last.next_offset
        ):
            raise RecordsError(
                f"{FILE_NAME} has overlapping offsets of {partition} from {entry.first_offset} on; "
                "export to a new directory"
            )
        self._last[partition] = entry
        self.entries.append(entry)

    _last: dict[TopicPartition, Entry] = field(default_factory=dict)


def encode_settings(settings: Settings) -> bytes:
    """Return the first line."""
    return _encode({"version": VERSION, **asdict(settings)})


def encode_entry(entry: Entry) -> bytes:
    """Return the line of an entry; the file's name is in it for readers of the manifest."""
    return _encode({**asdict(entry), "file": entry.file})


def read_manifest(data: bytes) -> Manifest:
    """Return the manifest in the bytes of its file, without an incomplete last line.

    Raises:
        RecordsError: the manifest is damaged, or belongs to another version.
    """
    manifest = Manifest()
    # The rest behind the last line break is an interrupted append.
    lines = data.split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        value = _decode(line)
        if value is None:
            # After a loss of power, parts of the last line may be missing.
            if any(_decode(later) is not None for later in lines[number:]):
                raise RecordsError(f"line {number} of {FILE_NAME} is damaged; restore a copy of it")
            return manifest
        _add(manifest, value, number)
        manifest.size_bytes += len(line) + 1
    return manifest


def temporary_name(first_offset: int) -> str:
    """Return the name of a file that is being written; Spark and Arrow skip names with a dot."""
    return f".{first_offset:020d}.tmp"


def is_temporary(name: str) -> bool:
    """Whether an export has given a file this name while it wrote the file."""
    return _TEMPORARY.fullmatch(name) is not None


def is_finished(name: str) -> bool:
    """Whether an export gives this name to a file that is in the manifest."""
    return _FINISHED.fullmatch(name) is not None


def leftovers(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries with a file, by the names under which the files were written."""
    return {entry.temporary_file: entry for entry in entries if entry.file is not None}


def _encode(value: dict[str, Any]) -> bytes:
    text = json.dumps(value).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def _decode(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _add(manifest: Manifest, value: dict[str, Any], number: int) -> None:
    try:
        if number > 1:
            value.pop("file")
            manifest.add(Entry(**value))
            return
        version = value.pop("version")
        if version == VERSION:
            manifest.settings = Settings(**value)
            return
    except (KeyError, TypeError) as error:
        raise RecordsError(f"line {number} of {FILE_NAME} lacks a field: {error}") from error
    raise RecordsError(f"{FILE_NAME} has version {version}; this program knows {VERSION}")
