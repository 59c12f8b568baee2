"""Ten million records over a million keys, cleaned by the same process as a broker starts."""

import array
import random
import re
import subprocess
from pathlib import Path

import pytest

from broker.logs.cleaner_process import COMMAND
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import BatchBuilder, BatchHeader, iterate_batches, read_header, read_records
from storage.compaction.job import CleaningDone, CleaningJob, GroupCleaned, read_report
from storage.compaction.job_maker import CleanerSettings
from storage.config.log_config import COMPACT, LogConfig
from storage.log.log import Log
from tests.unit.storage.compacting import job_of
from tests.unit.storage.logs import NOW_MS, open_log

MIB = 1024 * 1024
RECORD_COUNT = 10_000_000
KEY_COUNT = 1_000_000
BATCH_RECORDS = 145
TOMBSTONE_SHARE = 50
MAP_BYTES = 16 * MIB
"""Capacity for 630,000 keys: the log takes several rounds."""
BASE_MEMORY_BYTES = 60 * MIB
RETENTION_MS = 1_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({COMPACT}),
    segment_bytes=64 * MIB,
    delete_retention_ms=RETENTION_MS,
)
SETTINGS = CleanerSettings(
    dedupe_buffer_bytes=MAP_BYTES,
    load_factor=0.9,
    io_buffer_bytes=MIB // 4,
    max_bytes_per_second=float("inf"),
)
VALUE = b"v" * 40


class Ledger:
    """The last offset of each key, and the set of tombstones."""

    def __init__(self) -> None:
        self.latest = array.array("q", [-1] * KEY_COUNT)
        self.is_tombstone = bytearray(KEY_COUNT)

    def note(self, key: int, offset: int, *, is_tombstone: bool) -> None:
        self.latest[key] = offset
        self.is_tombstone[key] = is_tombstone


def write(log: Log, ledger: Ledger) -> None:
    dice = random.Random(7)
    offset = 0
    while offset < RECORD_COUNT:
        builder = BatchBuilder()
        for _ in range(min(BATCH_RECORDS, RECORD_COUNT - offset)):
            key = dice.randrange(KEY_COUNT)
            is_tombstone = not dice.randrange(TOMBSTONE_SHARE)
            builder.append(NOW_MS, b"%d" % key, None if is_tombstone else VALUE)
            ledger.note(key, offset, is_tombstone=is_tombstone)
            offset += 1
        batch = builder.build()
        log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(0), NOW_MS)
    log.upkeep.roll(NOW_MS)


def run(job: CleaningJob, log: Log) -> CleaningDone:
    """Run the job in a process, swap in its segments, and check its memory."""
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job.to_line().encode())
        process.stdin.close()
        reports = []
        for line in process.stdout:
            # The map has its final size by the time of the first report.
            check_memory(process.pid)
            reports.append(read_report(line.decode()))
    for group in reports[:-1]:
        assert isinstance(group, GroupCleaned)
        assert log.upkeep.begin_swap(group.replaced, group.size_bytes)
        assert log.upkeep.finish_swap(NOW_MS)
    done = reports[-1]
    assert isinstance(done, CleaningDone), done
    return done


def check_memory(pid: int) -> None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    if found:
        assert int(found[1]) * 1024 < MAP_BYTES + BASE_MEMORY_BYTES


def batches_of(log: Log) -> list[tuple[BatchHeader, memoryview]]:
    paths = sorted(log.directory.glob("*.log"))
    return [each for path in paths for each in iterate_batches(path.read_bytes())]


def clean_all(log: Log, now_ms: int, undecided: int, dirty_from: int = 0) -> int:
    """Clean in as many rounds as needed; return their number."""
    round_count, end = 0, dirty_from
    while True:
        job = job_of(log, dirty_from=end, undecided=undecided, now_ms=now_ms, chosen=SETTINGS)
        done = run(job, log)
        if done.end_offset <= end:
            return round_count
        end, round_count = done.end_offset, round_count + 1


@pytest.mark.soak
def test_ten_million_records_over_a_million_keys(tmp_path: Path) -> None:
    log, ledger = open_log(tmp_path / "orders-0", CONFIG), Ledger()
    write(log, ledger)
    undecided = log.segments[-2].base_offset
    untouched = {
        path.name: path.read_bytes()
        for path in log.directory.glob("*.log")
        if int(path.stem) >= undecided
    }
    assert clean_all(log, NOW_MS, undecided) > 1
    for name, data in untouched.items():
        assert (log.directory / name).read_bytes() == data
    assert clean_all(log, NOW_MS, log.log_end_offset, undecided) >= 1
    check(log, ledger, with_tombstones=True)
    # Another cleaning after the horizon removes the tombstones, and nothing else.
    end = log.log_end_offset
    for _ in range(2):
        batch = BatchBuilder()
        batch.append(NOW_MS, b"one more", VALUE)
        built = batch.build()
        log.append_as_leader(memoryview(built), read_header(built), LeaderEpoch(0), NOW_MS)
        log.upkeep.roll(NOW_MS)
    clean_all(log, NOW_MS + RETENTION_MS, log.log_end_offset, end)
    check(log, ledger, with_tombstones=False)


def check(log: Log, ledger: Ledger, *, with_tombstones: bool) -> None:
    """Check that exactly the last record of each key is there, at its offset, in order."""
    expected = sorted(
        offset
        for key, offset in enumerate(ledger.latest)
        if offset >= 0 and (with_tombstones or not ledger.is_tombstone[key])
    )
    found: list[int] = []
    for _, batch in batches_of(log):
        for record in read_records(batch):
            if record.key == b"one more":
                continue
            key = int(record.key or b"")
            assert ledger.latest[key] == record.offset
            assert (record.value is None) == bool(ledger.is_tombstone[key])
            found.append(record.offset)
    assert found == expected
    assert log.log_end_offset >= Offset(RECORD_COUNT)
