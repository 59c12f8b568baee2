"""A cleaner is a process that does not slow down its broker."""

import dataclasses
import os
from pathlib import Path

import pytest

from broker.logs.cleaner_process import NICENESS, CleanerProcess
from storage.compaction.job import CleaningDone, GroupCleaned
from tests.unit.storage.compacting import COMPACTED, job_of, put, settings
from tests.unit.storage.logs import open_log
from tests.waiting import until

NICEST = 19
"""The system's limit."""


def child_pids() -> set[int]:
    return {
        int(pid)
        for children in Path("/proc/self/task").glob("*/children")
        for pid in children.read_text().split()
    }


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into Linux's /proc")
async def test_a_cleaner_has_low_priority_from_its_first_instruction_on(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", COMPACTED)
    for number in range(30):
        put(log, (b"key-%d" % (number % 3), b"%d" % number))
    log.upkeep.roll(0)
    before = child_pids()
    # Slow enough to be observed.
    chosen = dataclasses.replace(settings(), max_bytes_per_second=5_000)
    cleaner = await CleanerProcess.start(job_of(log, chosen=chosen))
    (pid,) = child_pids() - before
    # Long before the process can have lowered its own priority.
    expected = min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, NICEST)
    assert os.getpriority(os.PRIO_PROCESS, pid) == expected
    assert os.sched_getscheduler(pid) == os.SCHED_BATCH
    # If the system schedules by session, niceness has effect only within a session.
    assert os.getsid(pid) == os.getsid(0)
    # Ctrl-C at a terminal reaches the whole process group.
    await until(lambda: os.getpgid(pid) == pid, "a process group of its own")
    reports = [report async for report in cleaner.reports()]
    assert [type(each) for each in reports[-2:]] == [GroupCleaned, CleaningDone]
    await cleaner.wait()
