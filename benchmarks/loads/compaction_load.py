"""The rate of compaction beside a plain copy, and its effect on a broker (edge)."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.loads.broker import (
    broker_process,
    create_topic,
    produce_answer_bytes,
    produce_frame,
)
from benchmarks.loads.pipeline import measure_round_trips
from benchmarks.loads.process import HOST, START_TIMEOUT_S
from benchmarks.loads.result import Figure, percentile
from broker.logs.cleaner_process import COMMAND
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder, Codec, read_header
from storage.compaction.cleanable import weigh
from storage.compaction.job import CleaningDone, CleaningJob, Report, read_report
from storage.compaction.job_maker import CleanerSettings, cleaning_job, log_facts
from storage.config.log_config import COMPACT, LogConfig
from storage.log.log import Log

RECORD_COUNT: Final = 10_000_000
KEY_COUNT: Final = 1_000_000
VALUE_BYTES: Final = 100
BATCH_RECORDS: Final = 145
SEGMENT_BYTES: Final = 128 * 1024 * 1024
MAP_BYTES: Final = 128 * 1024 * 1024
COPY_BYTES: Final = 1024 * 1024
COMPRESSED_SHARE: Final = 10
NOW_MS: Final = 1_700_000_000_000
ROUND_TRIPS: Final = 4_000
BATCH_BYTES: Final = 16 * 1024
TOPIC: Final = "bench-latency"
DIRTY_TOPIC: Final = "dirty"
WITH_CLEANER: Final = "log.cleaner.backoff.ms=100"
WITHOUT_CLEANER: Final = "log.cleaner.enable=false"
CONFIG: Final = LogConfig(cleanup_policy=frozenset({COMPACT}), segment_bytes=SEGMENT_BYTES)
SETTINGS: Final = CleanerSettings(
    dedupe_buffer_bytes=MAP_BYTES,
    load_factor=0.9,
    io_buffer_bytes=256 * 1024,
    max_bytes_per_second=float("inf"),
)


def measure(directory: Path) -> Iterator[Figure]:
    """Yield rates, memory, and the latency of produce requests with and without a cleaning."""
    dirty = directory / "dirty-0"
    log = write_dirty(dirty, RECORD_COUNT)
    yield from _rates(log, directory)
    small = directory / "lz4-0"
    yield from _compressed_rate(write_dirty(small, RECORD_COUNT // COMPRESSED_SHARE, Codec.LZ4))
    shutil.rmtree(small)
    yield from _latencies(dirty, directory)


def write_dirty(directory: Path, record_count: int, codec: Codec = Codec.NONE) -> Log:
    """Return a log of many records over few keys; all segments but the last are cleanable."""
    directory.mkdir()
    log = Log.open(
        directory,
        CONFIG,
        topic_partition=TopicPartition(directory.name[:-2], 0),
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        was_clean=True,
        now_ms=NOW_MS,
    )
    dice = random.Random(1)
    value = dice.randbytes(VALUE_BYTES)
    written = 0
    while written < record_count:
        builder = BatchBuilder(codec)
        for number in range(min(BATCH_RECORDS, record_count - written)):
            builder.append(NOW_MS + number, b"%012d" % dice.randrange(KEY_COUNT), value)
        batch = builder.build()
        log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(0), NOW_MS)
        written += builder.record_count
    log.upkeep.roll(NOW_MS)
    log.upkeep.flush()
    return log


def job_of(log: Log) -> CleaningJob:
    """Return the job of cleaning all of `log`."""
    candidate = weigh(log_facts(log, log.log_end_offset), None, NOW_MS)
    return cleaning_job(log, candidate, SETTINGS, NOW_MS)


class Cleaned(NamedTuple):
    """The report of the cleaner, and its time, CPU and memory."""

    done: CleaningDone
    elapsed_s: float
    cpu_s: float
    memory_mb: float


def clean(job: CleaningJob) -> Cleaned:
    """Run the cleaner as the broker does."""
    began_s = time.perf_counter()
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job.to_line().encode())
        process.stdin.close()
        reports: list[Report] = []
        memory_mb = 0.0
        for line in process.stdout:
            memory_mb = max(memory_mb, _peak_memory_mb(process.pid))
            reports.append(read_report(line.decode()))
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    done = reports[-1]
    assert isinstance(done, CleaningDone), done
    cpu_s = usage.ru_utime + usage.ru_stime
    return Cleaned(done, time.perf_counter() - began_s, cpu_s, memory_mb)


def _peak_memory_mb(pid: int) -> float:
    """Return the peak memory; the resource usage would include the parent's at the fork."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def copy_plainly(directory: Path, target: Path) -> float:
    """Copy the log files and sync the copy; return the seconds."""
    began_s = time.perf_counter()
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as source, (target / path.name).open("wb") as sink:
            while chunk := source.read(COPY_BYTES):
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    return time.perf_counter() - began_s


def _rates(log: Log, directory: Path) -> Iterator[Figure]:
    copies = directory / "copies"
    copies.mkdir()
    copy_s = copy_plainly(log.directory, copies)
    shutil.rmtree(copies)
    done, clean_s, cpu_s, memory_mb = clean(job_of(log))
    stats = done.stats
    assert stats.records_read == RECORD_COUNT
    assert stats.map_size <= KEY_COUNT
    assert stats.records_written == stats.map_size, "one record of each key"
    for path in log.directory.glob("*.cleaned"):
        path.unlink()
    megabytes = stats.bytes_read / 1e6
    yield Figure(
        name=f"compaction of {RECORD_COUNT:,} records over {KEY_COUNT:,} keys, all of it",
        unit="MB/s",
        value=megabytes / clean_s,
        reference_name="plain copy of the same bytes",
        reference=megabytes / copy_s,
        better="higher",
        note=f"map {stats.map_seconds:.1f} s of {clean_s:.1f} s, {cpu_s:.1f} s of processor; "
        f"{stats.bytes_written / 1e6:.0f} MB of {megabytes:.0f} MB stayed",
    )
    yield Figure(
        name="the same in records",
        unit="records/s",
        value=stats.records_read / clean_s,
        reference_name="plain copy of the same records",
        reference=stats.records_read / copy_s,
        better="higher",
    )
    yield Figure(
        name="peak memory of the cleaner",
        unit="MB",
        value=memory_mb,
        reference_name="log.cleaner.dedupe.buffer.size",
        reference=MAP_BYTES / 1e6,
        better="lower",
        goal=1.5,
    )


def _compressed_rate(log: Log) -> Iterator[Figure]:
    done, clean_s, cpu_s, _ = clean(job_of(log))
    yield Figure(
        name=f"compaction of {done.stats.records_read:,} records in lz4",
        unit="records/s",
        value=done.stats.records_read / clean_s,
        better="higher",
        note=f"{cpu_s:.1f} s of processor",
    )


def _latencies(dirty: Path, directory: Path) -> Iterator[Figure]:
    """Yield latencies of a broker with and then without a cleaner, over the same dirty log.

    The cleaner shares the broker's core here, which is the worst case.
    """
    quiet = _latency_us(dirty, directory / "quiet", WITHOUT_CLEANER)
    busy = _latency_us(dirty, directory / "busy", WITH_CLEANER)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        yield Figure(
            name=f"produce 16 KiB, one in flight, {name} while a cleaner runs",
            unit="us",
            value=percentile(busy, share),
            reference_name="the same without a cleaner",
            reference=percentile(quiet, share),
            better="lower",
            goal=2.0 if name == "p99" else None,
        )


def _latency_us(dirty: Path, directory: Path, setting: str) -> list[float]:
    directory.mkdir()
    overrides = ("log.cleanup.policy=compact", f"log.segment.bytes={SEGMENT_BYTES}")
    with broker_process(directory, overrides=(*overrides, WITHOUT_CLEANER)) as broker:
        for topic in (TOPIC, DIRTY_TOPIC):
            create_topic(broker.port, topic, 1)
    _fill(directory / "logs" / f"{DIRTY_TOPIC}-0", dirty)
    with broker_process(directory, overrides=(*overrides, setting)) as broker:
        frame = produce_frame(TOPIC, 0, BATCH_BYTES, key=b"key")
        answer_bytes = _produce_until_served(broker.port, frame)
        is_cleaning = setting != WITHOUT_CLEANER
        if is_cleaning:
            _wait_for(directory / "broker.log", "cleaning.started")
        latencies = measure_round_trips(HOST, broker.port, frame, answer_bytes, ROUND_TRIPS)
        text = (directory / "broker.log").read_text()
        assert ("cleaning.started" in text) == is_cleaning
        assert "cleaning.finished" not in text, "the cleaning was over before the load was"
    shutil.rmtree(directory)
    return latencies


def _fill(partition: Path, dirty: Path) -> None:
    """Give a partition of a stopped broker the records of a dirty log."""
    for path in partition.glob("0*"):
        path.unlink()
    for path in dirty.glob("0*"):
        os.link(path, partition / path.name)


def _produce_until_served(port: int, frame: bytes) -> int:
    """Wait until the broker leads the partition; return the size of the response."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return produce_answer_bytes(port, frame)
        except (RuntimeError, ConnectionError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def _wait_for(log: Path, event: str) -> None:
    while event not in log.read_text():
        time.sleep(0.01)
