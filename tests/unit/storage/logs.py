"""Logs and batches for tests, and naive versions of optimised code."""

import gc
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crc32c import crc32c

from kafkawire.compression import Codec
from kafkawire.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchBuilder, assign_offsets, read_header, read_records
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.log.log import AppendInfo, Log

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = TopicId(int=5)
NOW_MS = 1_700_000_000_000
# A roll after a few batches, an index entry every few hundred bytes.
SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
EVERYTHING = 2**31 - 1


def batch_of(
    timestamps_ms: Sequence[int] = (NOW_MS,), *, value_bytes: int = 20, codec: Codec = Codec.NONE
) -> bytearray:
    """Return a batch with one record per timestamp, as a producer sends it."""
    builder = BatchBuilder(codec=codec)
    for number, timestamp_ms in enumerate(timestamps_ms):
        builder.append(timestamp_ms, b"key", b"%d" % number + b"v" * value_bytes)
    return builder.build()


def replicated(
    base_offset: int, count: int = 1, epoch: int = 0, value_bytes: int = 20
) -> bytearray:
    """Return a batch as a leader sends it to a follower."""
    batch = batch_of([NOW_MS] * count, value_bytes=value_bytes)
    assign_offsets(memoryview(batch), base_offset, epoch)
    return batch


def open_log(
    directory: Path,
    config: LogConfig = SMALL,
    *,
    was_clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    is_gapless: bool = False,
) -> Log:
    """Open the log in `directory`, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    return Log.open(
        directory,
        config,
        topic_partition=PARTITION,
        recovery_point=Offset(recovery_point),
        log_start_offset=Offset(log_start_offset),
        is_gapless=is_gapless,
        was_clean=was_clean,
        now_ms=NOW_MS,
    )


def open_logs(*paths: Path, config: LogConfig = SMALL, **settings: Any) -> Logs:
    """Open the logs in the log dirs at `paths`; all topics have the same config."""
    return Logs.open(paths, config_of=lambda _topic: config, now_ms=NOW_MS, **settings)


def create(
    logs: Logs,
    partition: TopicPartition = PARTITION,
    topic_id: TopicId | None = TOPIC_ID,
    *,
    config: LogConfig = SMALL,
    is_new: bool = True,
) -> Log:
    """Return the log of `partition`, which is created if it is missing."""
    return logs.create(partition, config, topic_id, now_ms=NOW_MS, is_new=is_new)


def log_of(logs: Logs, partition: TopicPartition = PARTITION) -> Log:
    """Return the log of `partition`, which must exist."""
    log = logs.get(partition)
    assert log is not None
    return log


def crash(logs: Logs) -> None:
    """Release the locks as the death of the process does, without closing anything."""
    for directory in logs.table.directories:
        directory.unlock()


def append(
    log: Log,
    timestamps_ms: Sequence[int] = (NOW_MS,),
    *,
    epoch: int = 0,
    value_bytes: int = 20,
    codec: Codec = Codec.NONE,
    now_ms: int = NOW_MS,
) -> AppendInfo:
    """Append one batch as a leader."""
    batch = batch_of(timestamps_ms, value_bytes=value_bytes, codec=codec)
    return log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(epoch), now_ms)


def fill(log: Log, batch_count: int, *, epoch: int = 0, value_bytes: int = 20) -> None:
    """Append batches of one record."""
    for _ in range(batch_count):
        append(log, epoch=epoch, value_bytes=value_bytes)


def read(
    log: Log, offset: int, max_bytes: int = EVERYTHING, end_offset: int | None = None
) -> bytes:
    """Read complete batches, to the end of a segment at most."""
    end = log.log_end_offset if end_offset is None else Offset(end_offset)
    return log.read(Offset(offset), max_bytes, end_offset=end, min_one_batch=True).read()


def read_all(log: Log) -> bytes:
    """Read the log from its start to its end, segment after segment."""
    parts, offset = [], log.log_start_offset
    while data := read(log, offset):
        parts.append(data)
        offset = Offset(split(data)[-1].next_offset)
    return b"".join(parts)


def offsets_in(data: bytes) -> list[int]:
    """Return the offsets of all records in the batches of `data`."""
    return [record.offset for batch in split(data) for record in read_records(batch.data)]


def open_files() -> int:
    """Return the number of open descriptors of this process, after freeing unreferenced logs."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Batch(NamedTuple):
    """The facts about a batch that the naive reader knows."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    epoch: int
    data: bytes

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


def split(data: bytes, next_offset: int = 0) -> list[Batch]:
    """Split `data` into batches, up to the first byte that does not begin a valid batch."""
    batches: list[Batch] = []
    position = 0
    while len(data) - position >= 61:
        base_offset, length, epoch, magic, crc = struct.unpack_from(">qiibI", data, position)
        delta, _, max_timestamp_ms = struct.unpack_from(">iqq", data, position + 23)
        count = struct.unpack_from(">i", data, position + 57)[0]
        whole = data[position : position + 12 + length]
        is_sane = magic == 2 and length >= 49 and delta >= 0 and count >= 0
        if not is_sane or len(whole) < 12 + length or crc32c(whole[21:]) != crc:
            break
        if base_offset < next_offset or base_offset + delta >= 2**63 - 1:
            break
        last_offset = base_offset + delta
        batches.append(Batch(position, base_offset, last_offset, max_timestamp_ms, epoch, whole))
        position += len(whole)
        next_offset = last_offset + 1
    return batches


def naive_indexes(batches: Sequence[Batch], base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """Return the bytes of `.index` and `.timeindex` of a closed segment."""
    offsets, times = b"", b""
    last_position, last_time = 0, -1
    maximum = (-1, base_offset)
    for batch in batches:
        if batch.max_timestamp_ms > maximum[0]:
            maximum = (batch.max_timestamp_ms, batch.last_offset)
        if batch.position - last_position > interval:
            offsets += struct.pack(">ii", batch.last_offset - base_offset, batch.position)
            last_position = batch.position
            if maximum[0] > last_time:
                times += struct.pack(">qi", maximum[0], maximum[1] - base_offset)
                last_time = maximum[0]
    if maximum[0] > last_time:
        times += struct.pack(">qi", maximum[0], maximum[1] - base_offset)
    return offsets, times


def check_files(directory: Path, interval: int = SMALL.index_interval_bytes) -> None:
    """Check that every segment's indexes match its log, byte for byte."""
    logs = sorted(directory.glob("*.log"))
    assert logs
    for path in logs:
        base_offset = int(path.stem)
        data = path.read_bytes()
        batches = split(data, base_offset)
        assert sum(len(batch.data) for batch in batches) == len(data), f"{path} has a bad tail"
        expected = naive_indexes(batches, base_offset, interval)
        found = (
            path.with_suffix(".index").read_bytes(),
            path.with_suffix(".timeindex").read_bytes(),
        )
        assert found == expected, path.name
