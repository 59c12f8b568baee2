"""Items of a dump, each with a text line and a JSON form (decision)."""

import struct
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

from kafkawire.errors import CorruptBatchError, DecodeError
from kafkawire.records import BatchHeader, Record, TimestampType
from kafkawire.transaction_records import (
    TransactionRecord,
    read_transaction_key,
    read_transaction_value,
)
from logcheck.finding import Finding
from ottla.cli.text import (
    NO_TIMESTAMP_MS,
    JsonValue,
    bytes_to_json,
    headers_to_json,
    plural,
    readable,
    shown,
    size_text,
    time_text,
)

_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_MARKERS: Final = {0: "abort", 1: "commit"}
_OFFSET_FIELDS: Final = ("size_bytes", "base_offset", "last_offset", "record_count", "leader_epoch")
_OTHER_FIELDS: Final = (
    *("base_timestamp_ms", "max_timestamp_ms", "delete_horizon_ms", "producer_id"),
    *("producer_epoch", "base_sequence", "is_transactional", "is_control", "crc"),
)


class Item(Protocol):
    """One printable item."""

    def to_line(self) -> str:
        """Return one line of text, indented below the line of its file."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the same values as a JSON object, with the kind of item in the field `type`."""


@dataclass(frozen=True, slots=True)
class FileItem:
    """Header of a file's dump."""

    file: str
    kind: str
    size_bytes: int

    def to_line(self) -> str:
        return f"{self.file}: {self.kind}, {size_text(self.size_bytes)}"

    def to_json(self) -> dict[str, JsonValue]:
        return {"type": "file", **asdict(self)}


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One batch of a segment."""

    file: str
    position: int
    header: BatchHeader
    is_intact: bool

    def to_line(self) -> str:
        header = self.header
        parts = [
            f"  at {self.position}: offsets {header.base_offset}..{header.last_offset}",
            plural(header.record_count, "record"),
            size_text(header.size_bytes),
            f"epoch {header.leader_epoch}",
            codec_name(header),
            f"{_timestamp_type(header)} up to {time_text(header.max_timestamp_ms)}",
        ]
        if header.producer_id >= 0:
            parts.append(
                f"producer {header.producer_id} epoch {header.producer_epoch} "
                f"from sequence {header.base_sequence}"
            )
        parts += ["transactional"] * header.is_transactional + ["control"] * header.is_control
        if header.delete_horizon_ms is not None:
            parts.append(f"tombstones until {time_text(header.delete_horizon_ms)}")
        parts.append("checksum right" if self.is_intact else "checksum WRONG")
        return ", ".join(parts)

    def to_json(self) -> dict[str, JsonValue]:
        header = self.header
        return {
            "type": "batch",
            "file": self.file,
            "position": self.position,
            **{name: getattr(header, name) for name in _OFFSET_FIELDS},
            "codec": codec_name(header),
            "timestamp_type": _timestamp_type(header),
            **{name: getattr(header, name) for name in _OTHER_FIELDS},
            "is_intact": self.is_intact,
        }


@dataclass(frozen=True, slots=True)
class RecordItem:
    """One record of a batch, or a transaction marker."""

    file: str
    record: Record
    is_control: bool

    def to_line(self) -> str:
        record = self.record
        head = f"    offset {record.offset}, {time_text(record.timestamp_ms)}"
        if self.is_control:
            return f"{head}: {self._marker()} marker{self._coordinator()}"
        parts = [f"key {readable(record.key)}", f"value {readable(record.value)}"]
        parts += [f"header {key} = {readable(value)}" for key, value in record.headers]
        return f"{head}: {', '.join(parts)}"

    def to_json(self) -> dict[str, JsonValue]:
        record = self.record
        return {
            "type": "record",
            "file": self.file,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            **bytes_to_json("key", record.key),
            **bytes_to_json("value", record.value),
            "headers": headers_to_json(record.headers),
            **({"marker": self._marker()} if self.is_control else {}),
        }

    def _coordinator(self) -> str:
        value = self.record.value
        if value is None or len(value) < _MARKER_VALUE.size:
            return ""
        _version, epoch = _MARKER_VALUE.unpack_from(value)
        return f" of coordinator epoch {epoch}"

    def _marker(self) -> str:
        key = self.record.key
        if key is None or len(key) < _MARKER_KEY.size:
            return "unreadable"
        _version, kind = _MARKER_KEY.unpack_from(key)
        return _MARKERS.get(kind, f"type {kind}")


@dataclass(frozen=True, slots=True)
class TransactionItem:
    """One record of `__transaction_state`: the state of a transactional id."""

    file: str
    record: Record

    def to_line(self) -> str:
        record = self.record
        head = f"    offset {record.offset}, {time_text(record.timestamp_ms)}"
        try:
            transactional_id, state = self._read()
        except DecodeError as error:
            return f"{head}: unreadable, {error}"
        if transactional_id is None:
            return f"{head}: a key of an unknown version"
        named = f"{head}: transactional id {shown(transactional_id)}"
        if state is None:
            return f"{named}, deleted"
        parts = [
            state.status.wire_name,
            f"producer {state.producer_id} epoch {state.producer_epoch}",
            f"timeout {state.timeout_ms} ms",
            f"start {time_text(state.start_ms)}",
            *(str(each) for each in sorted(state.partitions)),
        ]
        return f"{named}, {', '.join(parts)}"

    def to_json(self) -> dict[str, JsonValue]:
        shared = RecordItem(self.file, self.record, is_control=False).to_json()
        try:
            transactional_id, state = self._read()
        except DecodeError as error:
            return {**shared, "unreadable": str(error)}
        if state is None:
            return {**shared, "transactional_id": transactional_id, "state": None}
        return {
            **shared,
            "transactional_id": transactional_id,
            "state": state.status.wire_name,
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "timeout_ms": state.timeout_ms,
            "start_ms": state.start_ms,
            "last_update_ms": state.last_update_ms,
            "partitions": [
                {"topic": each.topic, "partition": each.partition}
                for each in sorted(state.partitions)
            ],
        }

    def _read(self) -> tuple[str | None, TransactionRecord | None]:
        record = self.record
        if record.key is None:
            raise DecodeError("a record without a key")
        transactional_id = read_transaction_key(bytes(record.key))
        if transactional_id is None or record.value is None:
            return transactional_id, None
        return transactional_id, read_transaction_value(bytes(record.value))


@dataclass(frozen=True, slots=True)
class RowItem:
    """An entry of an index, or a line of a text file: named values."""

    file: str
    row_type: str
    values: dict[str, JsonValue]

    def to_line(self) -> str:
        return "  " + ", ".join(f"{name} {value}" for name, value in self.values.items())

    def to_json(self) -> dict[str, JsonValue]:
        return {"type": self.row_type, "file": self.file, **self.values}


@dataclass(frozen=True, slots=True)
class FindingItem:
    """An inconsistency, placed after the item that has it."""

    finding: Finding

    def to_line(self) -> str:
        return f"! {self.finding}"

    def to_json(self) -> dict[str, JsonValue]:
        names = "file", "damage", "severity", "position", "offset", "text", "more"
        return {"type": "finding", **{name: getattr(self.finding, name) for name in names}}


@dataclass(slots=True)
class Summary:
    """Totals at the end of a file's dump."""

    file: str
    counts: dict[str, int] = field(default_factory=dict)
    first_offset: int | None = None
    last_offset: int | None = None
    newest_timestamp_ms: int = NO_TIMESTAMP_MS
    shape: str = ""
    finding_count: int = 0

    def add_batch(self, header: BatchHeader) -> None:
        """Count a batch and its records, and extend the range of offsets."""
        self.count("batch")
        self.count("record", header.record_count)
        if self.first_offset is None:
            self.first_offset = header.base_offset
        self.last_offset = header.last_offset
        self.newest_timestamp_ms = max(self.newest_timestamp_ms, header.max_timestamp_ms)

    def count(self, noun: str, number: int = 1) -> None:
        """Add `number` to the count of `noun`."""
        self.counts[noun] = self.counts.get(noun, 0) + number

    def to_line(self) -> str:
        parts = [plural(number, noun) for noun, number in self.counts.items()]
        if self.first_offset is not None:
            parts.append(f"offsets {self.first_offset}..{self.last_offset}")
        if self.newest_timestamp_ms != NO_TIMESTAMP_MS:
            parts.append(f"newest {time_text(self.newest_timestamp_ms)}")
        if self.shape:
            parts.append(self.shape)
        parts.append(plural(self.finding_count, "inconsistency"))
        return f"  = {', '.join(parts)}"

    def to_json(self) -> dict[str, JsonValue]:
        return {"type": "summary", **asdict(self)}


def codec_name(header: BatchHeader) -> str:
    """Return the name of the codec, or an error text with its number if it is unknown."""
    try:
        return header.codec.name.lower()
    except CorruptBatchError as error:
        return str(error)


def _timestamp_type(header: BatchHeader) -> str:
    is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
    return "create time" if is_create_time else "append time"
