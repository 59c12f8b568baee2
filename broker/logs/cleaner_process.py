"""One cleaner as a child process (edge).

It gets its job as one line, and tells what it has done in lines of its own. It shares no files
with the broker but those it has been named, so that it may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Final

from storage.compaction.job import CleaningJob, Report, read_report

# Without the working directory, where a folder of the user's might be called storage.
COMMAND: Final = (sys.executable, "-P", "-m", "storage.compaction.worker")
NICENESS: Final = 10
"""Where there are fewer cores than work, a broker's requests come first."""


class CleanerProcess:
    """A child that does one job."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, job: CleaningJob) -> CleanerProcess:
        """Begin with `job`.

        Raises:
            OSError: there can be no process.
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
        """Yield what the child tells, until it ends.

        Raises:
            ValueError: it tells something else.
        """
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            yield read_report(line.decode())

    def kill(self) -> None:
        """End it, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> None:
        """Return when it has ended."""
        await self._process.wait()


def _yield_to_others(pid: int) -> None:
    """Let whoever has requests to answer go first, from the child's first instruction on.

    It stays in the broker's session: on Linux each session may be a scheduling group of its own
    (autogroup), and niceness counts for nothing between groups.
    """
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        if hasattr(os, "sched_setscheduler"):
            # Also when the broker has been given a real-time priority.
            os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
