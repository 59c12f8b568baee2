"""A process is killed with -9 while it appends: the next start finds all appended records.

The page cache survives the kill, so this holds for unflushed records too. The effects of a power
loss are tested in `tests/property/storage/test_torn_write.py`.
"""

import random
import subprocess
import sys
from pathlib import Path

from kafkawire.ids import Offset
from kafkawire.records import crc_matches, iterate_batches, read_records
from storage.log.log import Log
from tests.integration.storage.appender import CONFIG, PARTITION, open_logs, value_of
from tests.unit.storage.logs import check_files, crash, log_of, read_all

KILLS = 10


def append_and_kill(path: Path, seed: int, batch_count: int) -> dict[str, int]:
    """Let a process append `batch_count` batches, kill it; return its last line of each kind."""
    told: dict[str, int] = {}
    command = [sys.executable, "-m", "tests.integration.storage.appender", str(path), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, *rest = line.split()
            if name in ("opened", "appended", "flushed"):
                told[name] = int(rest[0])
                batch_count -= name == "appended"
            if batch_count == 0:
                break
        process.kill()
        # Lines between the last one read and the end of the process.
        for line in process.stdout:
            if line.endswith("\n") and line.startswith("appended"):
                told["appended"] = int(line.split()[1])
    return told


def check_records(log: Log) -> None:
    """Check every record against its expected value; there is no torn batch and no gap."""
    next_offset = 0
    for header, batch in iterate_batches(read_all(log)):
        assert crc_matches(batch, header)
        for record in read_records(batch):
            assert (record.offset, record.key) == (next_offset, b"%d" % next_offset)
            assert record.value == value_of(next_offset)
            next_offset += 1
    assert next_offset == log.log_end_offset


def test_ten_kills_lose_no_appended_record(tmp_path: Path) -> None:
    dice = random.Random(21)
    path = tmp_path / "logs"
    appended, rolled = 0, 0
    for seed in range(KILLS):
        told = append_and_kill(path, seed, dice.randint(20, 120))
        assert told["opened"] >= appended, "a batch was lost by the start in the process"
        appended = told["appended"]
        logs = open_logs(path)
        assert not logs.table.directories[0].last_shutdown.was_clean
        log = log_of(logs, PARTITION)
        assert log.log_end_offset >= appended
        assert log.recovery_point >= min(told.get("flushed", 0), log.log_end_offset)
        check_records(log)
        assert [int(entry.epoch) for entry in log.leader_epochs.entries] == list(range(seed + 1))
        rolled = len(log.segments)
        # Every other process recovers the log; the others open a cleanly closed one.
        if seed % 2:
            logs.close()
            check_files(log.directory, CONFIG.index_interval_bytes)
        crash(logs)
    assert rolled > 5, "hardly any segment was rolled, so the run proved little"


def test_kill_during_recovery_loses_no_record(tmp_path: Path) -> None:
    path = tmp_path / "logs"
    told = append_and_kill(path, 1, 300)
    command = [
        sys.executable,
        "-c",
        "from pathlib import Path\n"
        "import os, sys\n"
        "import storage.log.recovery as recovery\n"
        "from tests.integration.storage.appender import open_logs\n"
        "real, left = recovery.recover_segment, [3]\n"
        "def stop(*args):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: os.kill(os.getpid(), 9)\n"
        "    return real(*args)\n"
        "recovery.recover_segment = stop\n"
        "open_logs(Path(sys.argv[1]))\n",
        str(path),
    ]
    # Without the checkpoint, recovery takes longer than the process lives.
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    assert subprocess.run(command, check=False).returncode == -9
    logs = open_logs(path)
    log = logs.get(PARTITION)
    assert log is not None
    assert log.log_end_offset >= Offset(told["appended"])
    check_records(log)
    logs.close()
    check_files(log.directory, CONFIG.index_interval_bytes)
