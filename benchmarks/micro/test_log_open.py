"""Time of a start: many partitions after a clean shutdown, or one after a crash (edge).

`python -m benchmarks.micro.test_log_open` prints milliseconds and rates. The reference of recovery
is reading the same file and computing its checksum in large pieces. As a test each case runs small.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import structlog
from crc32c import crc32c

from benchmarks.micro.test_log_append import NOW_MS, append_all, batch_of
from kafkawire.ids import TopicPartition
from kafkawire.records import read_header
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs

MIB: Final = 1024 * 1024
PARTITIONS: Final = 1_000
BATCHES_EACH: Final = 20
CRASHED_BYTES: Final = 256 * MIB
ROUNDS: Final = 3
# Three files per active partition.
OPEN_FILES: Final = 8_192


def open_logs(path: Path) -> Logs:
    """Open all logs in the log dir."""
    return Logs.open([path], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)


def make_partitions(path: Path, partition_count: int) -> None:
    """Create a cleanly closed log dir with `partition_count` partitions of some batches."""
    logs = open_logs(path)
    batch = batch_of(16)
    for number in range(partition_count):
        partition = TopicPartition("load", number)
        log = logs.create(partition, LogConfig(), None, now_ms=NOW_MS)
        append_all(log, batch, read_header(batch), BATCHES_EACH)
    logs.close()


def make_crashed(path: Path, record_count: int, size_bytes: int) -> None:
    """Create a log dir with one partition that was not closed."""
    logs = open_logs(path)
    log = logs.create(TopicPartition("load", 0), LogConfig(), None, now_ms=NOW_MS)
    batch = batch_of(record_count)
    append_all(log, batch, read_header(batch), size_bytes // len(batch))
    for directory in logs.table.directories:
        directory.unlock()


def time_clean_start(path: Path) -> float:
    """Return the milliseconds of the fastest start."""
    figures = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        logs = open_logs(path)
        figures.append(time.perf_counter() - started)
        logs.close()
    return min(figures) * 1e3


def time_recovery(path: Path) -> float:
    """Return the megabytes per second of the fastest recovery."""
    figures = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        logs = open_logs(path)
        figures.append(time.perf_counter() - started)
        for directory in logs.table.directories:
            directory.unlock()
    return sum(log.size_bytes for log in logs) / min(figures) / 1e6


def time_bare_check(path: Path) -> float:
    """Return the megabytes per second of reading the log file and computing one checksum."""
    figures = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with path.open("rb", buffering=0) as file:
            while data := file.read(MIB):
                crc32c(data)
        figures.append(time.perf_counter() - started)
    return path.stat().st_size / min(figures) / 1e6


def main() -> None:
    """Measure all, and print a line for each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        make_partitions(root / "many", PARTITIONS)
        figure = time_clean_start(root / "many")
        sys.stdout.write(f"{PARTITIONS} partitions after a clean shutdown: {figure:.0f} ms\n")
        for record_count in (16, 1):
            path = root / f"crashed-{record_count}"
            make_crashed(path, record_count, CRASHED_BYTES)
            rate = time_recovery(path)
            bare = time_bare_check(path / "load-0" / f"{0:020d}.log")
            sys.stdout.write(
                f"recovery, {record_count} KiB a batch: {rate:.0f} MB/s, bare check {bare:.0f}\n"
            )


def test_clean_start(tmp_path: Path) -> None:
    make_partitions(tmp_path / "many", 20)
    assert time_clean_start(tmp_path / "many") > 0
    assert len(open_logs(tmp_path / "many")) == 20


def test_recovery(tmp_path: Path) -> None:
    make_crashed(tmp_path / "crashed", 16, MIB)
    assert time_recovery(tmp_path / "crashed") > 0
    assert time_bare_check(tmp_path / "crashed" / "load-0" / f"{0:020d}.log") > 0


if __name__ == "__main__":
    main()
