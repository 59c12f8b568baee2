"""Keyed batches, a cleaning in one call, and a naive model of its result."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from kafkawire.native import BYTES_PER_SLOT
from kafkawire.records import (
    BatchBuilder,
    BatchHeader,
    TimestampType,
    assign_offsets,
    iterate_batches,
    read_records,
)
from storage.compaction.cleanable import weigh
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningDone, CleaningJob, GroupCleaned
from storage.compaction.job_maker import CleanerSettings, cleaning_job, log_facts
from storage.config.log_config import COMPACT, LogConfig
from storage.log.log import AppendInfo, Log
from tests.unit.storage.logs import NOW_MS
from tests.unit.storage.produced_batches import write

SEED = b"sixteen bytes..."
COMPACTED = LogConfig(
    cleanup_policy=frozenset({COMPACT}),
    segment_bytes=2_000,
    index_interval_bytes=200,
    segment_index_bytes=1_200,
    delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0.0,
)

KeyValue = tuple[bytes | None, bytes | None]


class Kept(NamedTuple):
    """A record from a reader's point of view."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def keyed_batch(
    records: Sequence[KeyValue],
    *,
    times_ms: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch of keys and values; `producer` is id, epoch and first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    builder = BatchBuilder(codec, timestamp_type, producer_id, epoch, sequence, is_transactional)
    for number, (key, value) in enumerate(records):
        builder.append(times_ms[number] if times_ms else NOW_MS + number, key, value)
    return builder.build()


def append_batch(log: Log, batch: bytearray, epoch: int = 0) -> AppendInfo:
    """Append any batch as a leader."""
    return write(log, batch, epoch)


def append_at(log: Log, batch: bytearray, base_offset: int, epoch: int = 0) -> None:
    """Append as a follower, at `base_offset`."""
    assign_offsets(memoryview(batch), base_offset, epoch)
    log.append_as_follower(memoryview(batch), NOW_MS)


def put(log: Log, *records: KeyValue, codec: Codec = Codec.NONE) -> AppendInfo:
    """Append one batch of keys and values."""
    return append_batch(log, keyed_batch(records, codec=codec))


def settings(slot_count: int = 1_000, io_buffer_bytes: int = 4_096) -> CleanerSettings:
    return CleanerSettings(
        dedupe_buffer_bytes=slot_count * BYTES_PER_SLOT,
        load_factor=1.0,
        io_buffer_bytes=io_buffer_bytes,
        max_bytes_per_second=float("inf"),
    )


def job_of(
    log: Log,
    *,
    dirty_from: int | None = None,
    undecided: int | None = None,
    now_ms: int = NOW_MS,
    chosen: CleanerSettings | None = None,
) -> CleaningJob:
    """Return the job that a manager would make for a log."""
    bound = log.log_end_offset if undecided is None else Offset(undecided)
    checkpoint = None if dirty_from is None else Offset(dirty_from)
    candidate = weigh(log_facts(log, bound), checkpoint, now_ms)
    return cleaning_job(log, candidate, chosen or settings(), now_ms)


def run(job: CleaningJob) -> tuple[list[GroupCleaned], CleaningDone]:
    """Execute a job in this process."""
    *groups, done = Cleaner(job, seed=SEED).clean()
    assert isinstance(done, CleaningDone)
    return [each for each in groups if isinstance(each, GroupCleaned)], done


def clean(
    log: Log,
    *,
    dirty_from: int | None = None,
    undecided: int | None = None,
    now_ms: int = NOW_MS,
    chosen: CleanerSettings | None = None,
) -> int:
    """Clean a log once and swap in the result; return the end of its clean part."""
    job = job_of(log, dirty_from=dirty_from, undecided=undecided, now_ms=now_ms, chosen=chosen)
    groups, done = run(job)
    for group in groups:
        assert log.upkeep.begin_swap(group.replaced, group.size_bytes)
        log.upkeep.sync_names()
        assert log.upkeep.finish_swap(now_ms)
    return done.end_offset


def batches_on_disk(directory: Path) -> list[tuple[BatchHeader, memoryview]]:
    """Return all batches in the files of a log."""
    paths = sorted(directory.glob("*.log"))
    return [each for path in paths for each in iterate_batches(path.read_bytes())]


def headers_of(log: Log) -> list[BatchHeader]:
    return [header for header, _ in batches_on_disk(log.directory)]


def records_of(log: Log) -> list[Kept]:
    """Return all data records, oldest first."""
    return [
        Kept(*record[:4])
        for header, batch in batches_on_disk(log.directory)
        if not header.is_control
        for record in read_records(batch)
    ]


def latest_values(records: Iterable[Kept]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}
