"""Writer of a log for audits, and of the same log after a cleaning (edge).

Records of about 100 bytes, 155 to a batch, a tenth as many keys as records, 2 % tombstones.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkawire.compression import Codec, compress
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    MAGIC,
    BatchBuilder,
    BatchHeader,
    read_header,
    write_header,
)
from kafkawire.records_loops import encode_varint

PER_BATCH: Final = 155
PER_SEGMENT: Final = 155 * 16_000
VALUE: Final = bytes(range(33, 113))
INDEX_INTERVAL_BYTES: Final = 4096
_TOMBSTONE_EVERY: Final = 50
_DAY_MS: Final = 86_400_000


def key_number(offset: int, key_count: int) -> int:
    """Return the key number of a record: scattered, and the same in every run."""
    return (offset * 2654435761 >> 7) % key_count


def write_pair(raw: Path, clean: Path, record_count: int, codec: Codec = Codec.NONE) -> None:
    """Write partition 0 of `orders` into both log directories, with their checkpoints."""
    key_count = max(1, record_count // 10)
    start_ms = int(time.time() * 1000) - _DAY_MS // 2
    bases = list(range(0, record_count, PER_SEGMENT))
    # The newest segment is active and has only the last few batches.
    active = max(bases[-1] + PER_BATCH, (record_count - 1) // PER_BATCH * PER_BATCH)
    if active < record_count:
        bases.append(active)
    until = bases[-1]
    last = array("q", bytes(8 * key_count))
    for offset in range(until):
        last[key_number(offset, key_count)] = offset
    for root in (raw, clean):
        (root / "orders-0").mkdir(parents=True)
        for name, value in (("replication-offset", record_count), ("recovery-point-offset", 0)):
            (root / f"{name}-checkpoint").write_text(f"0\n1\norders 0 {value}\n")
    (clean / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {until}\n")
    for base, end in zip(bases, [*bases[1:], record_count], strict=True):
        batches = _raw_batches(base, end, key_count, start_ms, codec)
        _write_segment(raw / "orders-0", base, batches, is_active=base == until)
        if base == until:
            batches = _raw_batches(base, end, key_count, start_ms, codec)
        else:
            batches = _clean_batches(base, end, last, start_ms, codec)
        _write_segment(clean / "orders-0", base, batches, is_active=base == until)


def recompress(source: Path, target: Path, codec: Codec) -> None:
    """Write a compressed copy of partition 0 of an uncompressed log directory, with checkpoints."""
    (target / "orders-0").mkdir(parents=True)
    for checkpoint in source.glob("*-checkpoint"):
        (target / checkpoint.name).write_bytes(checkpoint.read_bytes())
    segments = sorted((source / "orders-0").glob("*.log"))
    for segment in segments:
        batches = _recompressed(segment.read_bytes(), codec)
        is_active = segment is segments[-1]
        _write_segment(target / "orders-0", int(segment.stem), batches, is_active=is_active)


def _recompressed(data: bytes, codec: Codec) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        header = read_header(memoryview(data)[position:])
        end = position + 12 + header.batch_length
        section = compress(codec, data[position + BATCH_HEADER_BYTES : end])
        batch = bytearray(BATCH_HEADER_BYTES) + section
        attributes = header.attributes | codec
        write_header(batch, header._replace(batch_length=len(batch) - 12, attributes=attributes))
        yield bytes(batch)
        position = end


def _record(offset: int, key_count: int) -> tuple[bytes, bytes | None]:
    value = None if offset % _TOMBSTONE_EVERY == 0 else VALUE
    return b"%016d" % key_number(offset, key_count), value


def _raw_batches(
    base: int, end: int, key_count: int, start_ms: int, codec: Codec
) -> Iterator[bytes]:
    for first in range(base, end, PER_BATCH):
        builder = BatchBuilder(codec)
        append = builder.append
        for offset in range(first, min(first + PER_BATCH, end)):
            append(start_ms + (offset >> 4), *_record(offset, key_count))
        yield bytes(builder.build(first, 0))


def _clean_batches(
    base: int, end: int, last: array[int], start_ms: int, codec: Codec
) -> Iterator[bytes]:
    key_count = len(last)
    for first in range(base, end, PER_BATCH):
        offsets = range(first, min(first + PER_BATCH, end))
        kept = [offset for offset in offsets if last[key_number(offset, key_count)] == offset]
        if kept:
            yield _thin_batch(first, offsets[-1], kept, key_count, start_ms, codec)


def _thin_batch(
    first: int, last_offset: int, kept: list[int], key_count: int, start_ms: int, codec: Codec
) -> bytes:
    has_tombstone = any(offset % _TOMBSTONE_EVERY == 0 for offset in kept)
    # The horizon of a cleaning at this moment: no cleaning may remove these tombstones yet.
    base_ms = start_ms + 2 * _DAY_MS // 2 if has_tombstone else start_ms + (kept[0] >> 4)
    section = b"".join(
        _encode(offset - first, start_ms + (offset >> 4) - base_ms, *_record(offset, key_count))
        for offset in kept
    )
    batch = bytearray(BATCH_HEADER_BYTES) + compress(codec, section)
    header = BatchHeader(
        base_offset=first,
        batch_length=len(batch) - 12,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=codec | has_tombstone << 6,
        last_offset_delta=last_offset - first,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=start_ms + (kept[-1] >> 4),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(kept),
    )
    write_header(batch, header)
    return bytes(batch)


def _encode(offset_delta: int, timestamp_delta: int, key: bytes, value: bytes | None) -> bytes:
    body = (
        b"\0"
        + encode_varint(timestamp_delta)
        + encode_varint(offset_delta)
        + encode_varint(len(key))
        + key
    )
    body += encode_varint(-1) if value is None else encode_varint(len(value)) + value
    return encode_varint(len(body) + 1) + body + b"\0"


def _write_segment(
    directory: Path, base: int, batches: Iterator[bytes], *, is_active: bool
) -> None:
    stem = directory / f"{base:020d}"
    index = bytearray()
    newest, newest_offset, position, since = -1, 0, 0, 0
    with stem.with_suffix(".log").open("wb") as file:
        for batch in batches:
            base_offset, last_delta = struct.unpack_from(">q", batch)[0], _int(batch, 23)
            last_offset = base_offset + last_delta
            max_ms = struct.unpack_from(">q", batch, 35)[0]
            if max_ms > newest:
                newest, newest_offset = max_ms, last_offset
            if since > INDEX_INTERVAL_BYTES:
                index += struct.pack(">ii", last_offset - base, position)
                since = 0
            file.write(batch)
            since += len(batch)
            position += len(batch)
    stem.with_suffix(".index").write_bytes(index)
    times = b"" if is_active or newest < 0 else struct.pack(">qi", newest, newest_offset - base)
    stem.with_suffix(".timeindex").write_bytes(times)


def _int(batch: bytes, at: int) -> int:
    number: int = struct.unpack_from(">i", batch, at)[0]
    return number
