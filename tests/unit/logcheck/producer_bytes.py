"""Batches of producers in memory, and logs that consist of them."""

import struct
from collections.abc import Sequence
from contextlib import nullcontext

from crc32c import crc32c

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchBuilder,
    ControlType,
    build_control_batch,
    write_header,
)
from logcheck.batch_check import BatchCheck
from logcheck.batch_walk import Batch
from logcheck.history import History
from logcheck.log_scan import LogScan
from logcheck.log_view import Observer
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from tests.unit.logcheck.partition_bytes import (
    FILE,
    FIRST_TIMESTAMP_MS,
    BytesSource,
    Reported,
    header_of,
    join,
)

PRODUCER_ID = 7
COORDINATOR_EPOCH = 3


def data(
    offset: int,
    sequence: int = 0,
    *,
    producer_id: int = PRODUCER_ID,
    epoch: int = 0,
    count: int = 1,
    is_transactional: bool = True,
    leader_epoch: int = 0,
) -> bytearray:
    """Return a batch of `count` records."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    for number in range(count):
        builder.append(FIRST_TIMESTAMP_MS + offset + number, b"key", b"value")
    return builder.build(offset, leader_epoch)


def marker(
    offset: int,
    control_type: ControlType = ControlType.ABORT,
    *,
    producer_id: int = PRODUCER_ID,
    epoch: int = 0,
    timestamp_ms: int | None = None,
) -> bytearray:
    return build_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=COORDINATOR_EPOCH,
        timestamp_ms=FIRST_TIMESTAMP_MS + offset if timestamp_ms is None else timestamp_ms,
        base_offset=offset,
        leader_epoch=0,
    )


def plain(offset: int, *, key: bytes | None = b"key") -> bytearray:
    """Return a batch without a producer."""
    builder = BatchBuilder()
    builder.append(FIRST_TIMESTAMP_MS + offset, key, b"value")
    return builder.build(offset, 0)


def emptied(batch: bytearray) -> bytearray:
    """Return a batch from which a cleaner has removed all records."""
    empty = batch[:BATCH_HEADER_BYTES]
    size_bytes = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
    write_header(empty, header_of(batch)._replace(batch_length=size_bytes, record_count=0))
    return empty


def corrupt(batch: bytearray) -> bytearray:
    """Return a batch with a wrong checksum."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def sound(batch: bytearray) -> SoundBatch:
    """Return a batch as observers get it."""
    reported = Reported()
    opened = BatchCheck(FILE, reported).open(Batch(0, header_of(batch), memoryview(batch)))
    assert opened is not None
    assert reported.findings == []
    return opened


def files_of(batches: Sequence[bytearray], base_offset: int = 0) -> ReplicaFiles:
    """Return a replica with one segment."""
    segment = SegmentFiles(base_offset=base_offset, log=FILE, size_bytes=len(join([*batches])))
    return ReplicaFiles(topic="t", partition=0, replica="", directory="", segments=(segment,))


def scan_of(
    batches: Sequence[bytearray], base_offset: int = 0, history: History | None = None
) -> LogScan:
    """Return a scan, still to be run, of a log with one segment."""
    source = BytesSource(join([*batches]))
    files = files_of(batches, base_offset)
    return LogScan(files, lambda _: None, lambda _: nullcontext(source), history=history)


def scanned(
    batches: Sequence[bytearray], *observers: Observer, history: History | None = None
) -> LogScan:
    """Return a log that `observers` have seen."""
    scan = scan_of(batches, history=history)
    scan.run(observers)
    return scan


def snapshot_of(*entries: tuple[int, ...]) -> bytes:
    """Return a producer snapshot of rows with the fields of `ProducerEntry`."""
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body
