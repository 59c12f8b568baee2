"""Logs for tests: batches with any offsets, segments with indexes, and compacted twins.

They are written from the format alone. Of the code under test they use only the layout of the
batch header and the codecs.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkawire.compression import Codec, compress
from kafkawire.records import BATCH_HEADER_BYTES, MAGIC, BatchHeader, write_header

INDEX_INTERVAL_BYTES = 256
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Rec:
    """One record of a model log."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    attributes: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True)
class Bat:
    """One batch of a model log; `first` and `last` are offsets (inclusive)."""

    first: int
    last: int
    records: tuple[Rec, ...]
    epoch: int = 0
    codec: Codec = Codec.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    horizon_ms: int | None = None
    max_timestamp_ms: int | None = None

    def encode(self) -> bytes:
        base_ms = self.records[0].timestamp_ms if self.records else -1
        newest = max((record.timestamp_ms for record in self.records), default=-1)
        if self.horizon_ms is not None:
            base_ms = self.horizon_ms
        section = b"".join(encode_record(rec, self.first, base_ms) for rec in self.records)
        attributes = self.codec | self.is_transactional << 4 | self.is_control << 5
        attributes |= (self.horizon_ms is not None) << 6
        body = bytearray(BATCH_HEADER_BYTES) + (
            compress(self.codec, section) if self.records else b""
        )
        header = BatchHeader(
            self.first,
            len(body) - 12,
            self.epoch,
            MAGIC,
            0,
            attributes,
            self.last - self.first,
            base_ms,
            newest if self.max_timestamp_ms is None else self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.sequence,
            len(self.records),
        )
        write_header(body, header)
        return bytes(body)


def varint(value: int) -> bytes:
    number = value << 1 ^ value >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def span(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def encode_record(record: Rec, base_offset: int, base_ms: int) -> bytes:
    body = bytes([record.attributes]) + varint(record.timestamp_ms - base_ms)
    body += varint(record.offset - base_offset) + span(record.key) + span(record.value)
    body += varint(len(record.headers))
    body += b"".join(span(part) for header in record.headers for part in header)
    return varint(len(body)) + body


@dataclass
class Log:
    """A partition: batches in segments, and its entries in the checkpoints."""

    topic: str = "orders"
    partition: int = 0
    segments: list[tuple[int, list[Bat]]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    cleaner_point: int | None = None
    high_watermark: int | None = None
    recovery_point: int | None = None
    log_start: int | None = None

    @property
    def batches(self) -> list[Bat]:
        return [batch for _, batches in self.segments for batch in batches]

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def write(self, root: Path) -> Path:
        """Write the partition and the checkpoints beside it; return its directory."""
        directory = root / f"{self.topic}-{self.partition}"
        directory.mkdir(parents=True, exist_ok=True)
        for number, (base, batches) in enumerate(self.segments):
            write_segment(directory, base, batches, is_active=number == len(self.segments) - 1)
        lines = "".join(f"{epoch} {start}\n" for epoch, start in self.epochs)
        (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(self.epochs)}\n{lines}")
        for name, value in (
            ("cleaner-offset-checkpoint", self.cleaner_point),
            (
                "replication-offset-checkpoint",
                self.end if self.high_watermark is None else self.high_watermark,
            ),
            ("recovery-point-offset-checkpoint", self.recovery_point or 0),
            ("log-start-offset-checkpoint", self.log_start or 0),
        ):
            if value is not None:
                add_checkpoint(root / name, self.topic, self.partition, value)
        return directory


def add_checkpoint(file: Path, topic: str, partition: int, value: int) -> None:
    rows = file.read_text().splitlines()[2:] if file.exists() else []
    rows.append(f"{topic} {partition} {value}")
    file.write_text("\n".join(["0", str(len(rows)), *rows, ""]))


def write_segment(directory: Path, base: int, batches: Iterable[Bat], *, is_active: bool) -> None:
    data, index, times = bytearray(), bytearray(), bytearray()
    since, newest, newest_offset, last_time = 0, -1, 0, -1
    for batch in batches:
        encoded = batch.encode()
        newest_here = struct.unpack_from(">q", encoded, 35)[0]
        if newest_here > newest:
            newest, newest_offset = newest_here, batch.last
        if since > INDEX_INTERVAL_BYTES:
            index += struct.pack(">ii", batch.last - base, len(data))
            if newest > last_time:
                times += struct.pack(">qi", newest, newest_offset - base)
                last_time = newest
            since = 0
        since += len(encoded)
        data += encoded
    if not is_active and newest > last_time:
        times += struct.pack(">qi", newest, newest_offset - base)
    stem = directory / f"{base:020d}"
    stem.with_suffix(".log").write_bytes(data)
    stem.with_suffix(".index").write_bytes(index)
    stem.with_suffix(".timeindex").write_bytes(times)


def make_log(
    record_count: int = 400,
    key_count: int = 40,
    *,
    per_batch: int = 5,
    per_segment: int = 20,
    codec: Codec = Codec.NONE,
    tombstone_every: int = 17,
    partition: int = 0,
) -> Log:
    """Return an uncompacted log with repeated keys; every `tombstone_every`-th is a tombstone."""
    batches = []
    for first in range(0, record_count, per_batch):
        records = tuple(
            Rec(
                offset,
                b"key-%05d" % (offset * 7919 % key_count),
                None if offset % tombstone_every == 3 else b"value of %d" % offset,
                START_MS + offset * 10,
            )
            for offset in range(first, min(first + per_batch, record_count))
        )
        batches.append(Bat(first, records[-1].offset, records, codec=codec))
    segments = [
        (batches[start].first, batches[start : start + per_segment])
        for start in range(0, len(batches), per_segment)
    ]
    return Log(partition=partition, segments=segments)


def compact(log: Log, *, horizon_ms: int | None = None, keep_tombstones: bool = True) -> Log:
    """Return `log` as one run of Kafka's cleaner over all but the active segment leaves it."""
    until = log.segments[-1][0]
    last = {
        record.key: record.offset
        for batch in log.batches
        if batch.first < until
        for record in batch.records
    }
    segments = []
    for base, batches in log.segments[:-1]:
        kept = [thin(batch, last, horizon_ms, keep_tombstones=keep_tombstones) for batch in batches]
        segments.append((base, [batch for batch in kept if batch is not None]))
    merged = [(segments[0][0], [batch for _, batches in segments for batch in batches])]
    return replace(log, segments=[*merged, log.segments[-1]], cleaner_point=until)


def thin(
    batch: Bat,
    last: dict[bytes | None, int],
    horizon_ms: int | None,
    *,
    keep_tombstones: bool,
) -> Bat | None:
    kept = tuple(
        record
        for record in batch.records
        if last[record.key] == record.offset and (keep_tombstones or record.value is not None)
    )
    if not kept:
        return None
    has_tombstone = any(record.value is None for record in kept)
    return replace(batch, records=kept, horizon_ms=horizon_ms if has_tombstone else None)


def rebuild(log: Log, batches: Sequence[Bat], segment: int = 0) -> Log:
    """Return `log` with other batches in one of its segments."""
    segments = list(log.segments)
    segments[segment] = (segments[segment][0], list(batches))
    return replace(log, segments=segments)


def one_each(*records: tuple[int, bytes, bytes | None], **fields: Any) -> list[Bat]:
    """Return a batch for each record; all batches have the `fields`."""
    return [
        Bat(offset, offset, (Rec(offset, key, value, START_MS + offset),), **fields)
        for offset, key, value in records
    ]
