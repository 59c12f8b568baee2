"""One cleaner as a child process (edge).

It reads its job as one line, and writes its reports as lines. It opens only the files that the job
names, so the broker may kill it at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Final

from storage.compaction.job import CleaningJob, Report, read_report

# -P excludes the working directory, where a folder of the user might be named storage.
COMMAND: Final = (sys.executable, "-P", "-m", "storage.compaction.worker")
NICENESS: Final = 10
"""If there are fewer cores than work, a broker's requests take precedence."""


class CleanerProcess:
    """A child process that does one job."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, job: CleaningJob) -> CleanerProcess:
        """Start a process with `job`.

        Raises:
            OSError: the process cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        _yield_to_others(process.pid)
        assert process.stdin is not None
        process.stdin.write(job.to_line().encode())
        process.stdin.close()
        return cls(process)

    async def reports(self) -> AsyncIterator[Report]:
        """Yield the process's reports until it ends.

        Raises:
            ValueError: a line is not a report.
        """
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            yield read_report(line.decode())

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()


def _yield_to_others(pid: int) -> None:
    """Lower the priority of the child, from its first instruction on.

    It stays in the broker's session: on Linux each session may be a scheduling group of its own
    (autogroup), and niceness has no effect between groups.
    """
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        if hasattr(os, "sched_setscheduler"):
            # Needed if the broker has a real-time priority.
            os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
