"""The files of one replica as values that a test may change, written back in sound form.

Lengths, checksums and indexes are right again after `save`. The formats are
written from the specification; of the product only the codecs are used.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from kafkawire.compression import Codec, compress, decompress
from tests.analytics.log_model import span, varint

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_END: Final = 21
_CODEC: Final = 0x07
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
HORIZON: Final = 0x40
UNUSED: Final = 0x80
_MAX_BYTES: Final = 1 << 30
_TRANSACTION: Final = struct.Struct(">hqqqq")
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
_SNAPSHOT: Final = struct.Struct(">hIi")
CHECKPOINTS: Final = {
    "high_watermark": "replication-offset-checkpoint",
    "recovery_point": "recovery-point-offset-checkpoint",
    "log_start": "log-start-offset-checkpoint",
    "cleaner_point": "cleaner-offset-checkpoint",
}


@dataclass(eq=False)
class Record:
    attributes: int
    timestamp_ms: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


@dataclass(eq=False)
class Batch:
    base: int
    epoch: int
    attributes: int
    delta: int
    base_ms: int
    newest_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: list[Record]

    @property
    def last(self) -> int:
        return self.base + self.delta

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    def encode(self) -> bytes:
        section = b"".join(map(self._encoded, self.records))
        if self.attributes & _CODEC and self.records:
            section = compress(Codec(self.attributes & _CODEC), section)
        tail = struct.pack(
            ">hiqqqhii",
            self.attributes,
            self.delta,
            self.base_ms,
            self.newest_ms,
            self.producer_id,
            self.producer_epoch,
            self.sequence,
            len(self.records),
        )
        tail += section
        length = len(tail) + 9
        return struct.pack(">qiibI", self.base, length, self.epoch, 2, crc32c(tail)) + tail

    def _encoded(self, record: Record) -> bytes:
        body = bytes([record.attributes]) + varint(record.timestamp_ms - self.base_ms)
        body += varint(record.offset - self.base) + span(record.key) + span(record.value)
        body += varint(len(record.headers))
        body += b"".join(span(name) + span(value) for name, value in record.headers)
        return varint(len(body)) + body


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def number(self) -> int:
        result = shift = 0
        while (byte := self.byte()) & 0x80:
            result |= (byte & 0x7F) << shift
            shift += 7
        result |= byte << shift
        return (result >> 1) ^ -(result & 1)

    def span(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position]


def read_batches(data: bytes) -> Iterator[Batch]:
    position = 0
    while position + _HEADER.size <= len(data):
        base, length, epoch, _, _, *fields = _HEADER.unpack_from(data, position)
        attributes, delta, base_ms, newest_ms, *producer, count = fields
        producer_id, producer_epoch, sequence = producer
        if length <= 0:
            return
        section = data[position + _HEADER.size : position + 12 + length]
        if attributes & _CODEC and count:
            section = bytes(decompress(Codec(attributes & _CODEC), section, _MAX_BYTES))
        batch = Batch(
            base,
            epoch,
            attributes,
            delta,
            base_ms,
            newest_ms,
            producer_id,
            producer_epoch,
            sequence,
            [],
        )
        reader = _Reader(section)
        batch.records = [_read_record(reader, batch) for _ in range(count)]
        yield batch
        position += 12 + length


def _read_record(reader: _Reader, batch: Batch) -> Record:
    reader.number()
    attributes = reader.byte()
    timestamp_ms, offset = batch.base_ms + reader.number(), batch.base + reader.number()
    key, value = reader.span(), reader.span()
    headers = [(reader.span() or b"", reader.span()) for _ in range(reader.number())]
    return Record(attributes, timestamp_ms, offset, key, value, headers)


@dataclass(eq=False)
class Transaction:
    """An entry of a transaction index."""

    version: int
    producer_id: int
    first: int
    last: int
    stable: int


@dataclass(eq=False)
class Producer:
    """An entry of a producer snapshot."""

    producer_id: int
    epoch: int
    sequence: int
    offset: int
    delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first: int


class EditedLog:
    """The replica in `root`; changes reach its files with `save`."""

    def __init__(self, root: Path, name: str = "orders-0", interval_bytes: int = 200) -> None:
        self.root = root
        self.directory = root / name
        self._interval_bytes = interval_bytes
        self.segments = {
            int(path.stem): list(read_batches(path.read_bytes())) for path in self.files("log")
        }
        self.transactions = {
            int(path.stem): [
                Transaction(*fields) for fields in _TRANSACTION.iter_unpack(path.read_bytes())
            ]
            for path in self.files("txnindex")
        }
        self.producers = {
            int(path.stem): [
                Producer(*fields)
                for fields in _PRODUCER.iter_unpack(path.read_bytes()[_SNAPSHOT.size :])
            ]
            for path in self.files("snapshot")
        }

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.directory.glob(f"*.{suffix}"))

    def file(self, base: int, suffix: str) -> Path:
        return self.directory / f"{base:020d}.{suffix}"

    @property
    def batches(self) -> list[Batch]:
        return [batch for base in sorted(self.segments) for batch in self.segments[base]]

    @property
    def active(self) -> int:
        return max(self.segments)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1

    def segment_of(self, batch: Batch) -> list[Batch]:
        return next(each for each in self.segments.values() if any(one is batch for one in each))

    def remove_segment(self, base: int) -> None:
        del self.segments[base]
        for suffix in ("log", "index", "timeindex", "txnindex"):
            self.file(base, suffix).unlink(missing_ok=True)
        self.transactions.pop(base, None)

    def epochs(self) -> list[tuple[int, int]]:
        lines = (self.directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        return [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]

    def write_epochs(self, epochs: list[tuple[int, int]]) -> None:
        rows = [f"{epoch} {start}" for epoch, start in epochs]
        _write_rows(self.directory / "leader-epoch-checkpoint", rows)

    def checkpoint(self, name: str) -> int | None:
        path = self.root / CHECKPOINTS[name]
        rows = path.read_text().splitlines()[2:] if path.exists() else []
        return int(rows[0].split()[2]) if rows else None

    def write_checkpoint(self, name: str, offset: int) -> None:
        _write_rows(self.root / CHECKPOINTS[name], [f"orders 0 {offset}"])

    def save(self) -> None:
        for base, batches in self.segments.items():
            self._save_segment(base, batches)
        for base, transactions in self.transactions.items():
            data = b"".join(_TRANSACTION.pack(*vars(each).values()) for each in transactions)
            self.file(base, "txnindex").write_bytes(data)
        for base, producers in self.producers.items():
            body = struct.pack(">i", len(producers))
            body += b"".join(_PRODUCER.pack(*vars(each).values()) for each in producers)
            self.file(base, "snapshot").write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)

    def _save_segment(self, base: int, batches: list[Batch]) -> None:
        data, index, times = bytearray(), bytearray(), bytearray()
        since, newest, newest_at, last_time = 0, -1, 0, -1
        for batch in batches:
            encoded = batch.encode()
            if batch.newest_ms > newest:
                newest, newest_at = batch.newest_ms, batch.last
            if since > self._interval_bytes:
                index += struct.pack(">ii", batch.last - base, len(data))
                if newest > last_time:
                    times += struct.pack(">qi", newest, newest_at - base)
                    last_time = newest
                since = 0
            since += len(encoded)
            data += encoded
        if newest > last_time:
            times += struct.pack(">qi", newest, newest_at - base)
        for suffix, content in (("log", data), ("index", index), ("timeindex", times)):
            self.file(base, suffix).write_bytes(content)


def _write_rows(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(["0", str(len(rows)), *rows, ""]))
