"""Cost of an append besides the write itself (edge).

`python -m benchmarks.micro.test_log_append` prints microseconds per batch: the complete append, the
bare `os.pwrite` of the same bytes to a fresh file, and the append with a `pwrite` that does
nothing, which is the cost of Python. As a test each case runs once, with a check of its result.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import structlog

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder, BatchHeader, assign_offsets, read_header
from storage.config.log_config import LogConfig
from storage.log.log import Log

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

NOW_MS: Final = 1_700_000_000_000
ROUNDS: Final = 7
BATCHES: Final = 4_000
# Records of 1000 bytes each: one is a small request, sixteen are a producer's default batch.
RECORD_COUNTS: Final = (1, 16, 1000)
FOLLOWER_BATCHES: Final = 64


def batch_of(record_count: int) -> bytearray:
    """Return a batch of records of about a kilobyte."""
    builder = BatchBuilder()
    for _ in range(record_count):
        builder.append(NOW_MS, b"key", bytes(990))
    return builder.build()


def open_log(directory: Path) -> Log:
    """Return an empty log."""
    directory.mkdir(parents=True)
    return Log.open(
        directory,
        LogConfig(),
        topic_partition=TopicPartition("load", 0),
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        was_clean=True,
        now_ms=NOW_MS,
    )


def _take_all(_descriptor: int, data: Buffer, _position: int) -> int:
    return memoryview(data).nbytes


@contextmanager
def no_write() -> Iterator[None]:
    """Make every write to a log or an index accept its bytes and do nothing."""
    real = os.pwrite
    try:
        os.pwrite = _take_all
        yield
    finally:
        os.pwrite = real


def append_all(log: Log, batch: bytearray, header: BatchHeader, count: int) -> None:
    """Append the same batch repeatedly, each a millisecond later."""
    view = memoryview(batch)
    epoch = LeaderEpoch(0)
    append = log.append_as_leader
    for number in range(count):
        later = header._replace(max_timestamp_ms=NOW_MS + number)
        append(view, later, epoch, NOW_MS)


def only_replace(header: BatchHeader, count: int) -> None:
    """Do the work of `append_all` besides appending."""
    for number in range(count):
        header._replace(max_timestamp_ms=NOW_MS + number)


def write_all(path: Path, batch: bytearray, count: int) -> None:
    """Write the same bytes repeatedly, and do nothing else."""
    view = memoryview(batch)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for number in range(count):
            os.pwrite(descriptor, view, number * len(view))
    finally:
        os.close(descriptor)


def fastest(run: Callable[[int], Any], count: int) -> float:
    """Return the microseconds per batch of the fastest round; `run` gets the round's number."""
    seconds = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        run(number)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / count * 1e6


def begin_logs(root: Path, batch: bytearray, header: BatchHeader) -> Sequence[Log]:
    """Return fresh logs with a stored leader epoch, which costs an fsync once."""
    logs = [open_log(root / str(number)) for number in range(ROUNDS)]
    for log in logs:
        append_all(log, batch, header, 1)
    return logs


def measure(root: Path, record_count: int) -> tuple[float, float, float]:
    """Return append, bare write and Python's part, in microseconds per batch."""
    batch = batch_of(record_count)
    header = read_header(batch)
    count = max(100, BATCHES // record_count)
    overhead = fastest(lambda _: only_replace(header, count), count)
    logs = begin_logs(root / "whole", batch, header)
    whole = fastest(lambda number: append_all(logs[number], batch, header, count), count)
    bare = fastest(lambda _: write_all(root / "bare", batch, count), count)
    with no_write():
        logs = begin_logs(root / "none", batch, header)
        python = fastest(lambda number: append_all(logs[number], batch, header, count), count)
    return whole - overhead, bare, python - overhead


def measure_follower(root: Path) -> float:
    """Return the cost of a follower's append of 1 MiB in 16 KiB batches, in us per batch."""
    batches = [batch_of(16) for _ in range(FOLLOWER_BATCHES)]
    log = open_log(root / "follower")

    def run(_: int) -> None:
        for number, batch in enumerate(batches):
            base_offset = log.log_end_offset + 16 * number
            assign_offsets(memoryview(batch), base_offset, 0)
        log.append_as_follower(memoryview(bytearray().join(batches)), NOW_MS)

    return fastest(run, FOLLOWER_BATCHES)


def main() -> None:
    """Measure all, and print a line for each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as directory:
        for record_count in RECORD_COUNTS:
            whole, bare, python = measure(Path(directory) / str(record_count), record_count)
            size = len(batch_of(record_count))
            sys.stdout.write(
                f"{size:>8} bytes: append {whole:7.2f} us, bare pwrite {bare:7.2f} us, "
                f"Python {python:5.2f} us\n"
            )
        follower = measure_follower(Path(directory))
        sys.stdout.write(f"follower, 64 x 16 KiB at once: {follower:.2f} us per batch\n")


@pytest.mark.parametrize("record_count", RECORD_COUNTS)
def test_append(tmp_path: Path, record_count: int) -> None:
    log = open_log(tmp_path / "load-0")
    batch = batch_of(record_count)
    append_all(log, batch, read_header(batch), 10)
    assert log.log_end_offset == 10 * record_count
    assert log.size_bytes == 10 * len(batch)


def test_append_without_writing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "load-0")
    batch = batch_of(16)
    with no_write():
        append_all(log, batch, read_header(batch), 10)
    assert log.log_end_offset == 160
    write_all(tmp_path / "bare", batch, 10)
    assert (tmp_path / "bare").stat().st_size == 10 * len(batch)


def test_append_as_follower(tmp_path: Path) -> None:
    assert measure_follower(tmp_path) > 0


if __name__ == "__main__":
    main()
