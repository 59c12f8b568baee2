"""Snapshots without pauses (edge): a child process replays the closed segments.

The child runs the recovery code on the files and writes the recovered state, so recovery is
exercised regularly. `python -m coordination.server.disk.snapshotter DIRECTORY` is that child.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Final

import aiofiles.os  # type: ignore[import-untyped,unused-ignore]
import structlog

from coordination.errors import DataError
from coordination.server.coordinator_log import set_up_logging
from coordination.server.disk import state_snapshot
from coordination.server.disk.data_dir import (
    making_snapshot,
    read_identity,
    snapshot_path,
    snapshots_of,
    spent_files,
)
from coordination.server.disk.state_recovery import recover

NICENESS: Final = 19

log = structlog.get_logger(__name__)


class Snapshotter:
    """Runs one child at a time, then deletes the files that are no longer needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take a snapshot of the closed segments, unless one is in progress."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="snapshot")

    async def finish(self, *, takes_snapshot: bool) -> None:
        """Cancel a snapshot in progress; with `takes_snapshot`, take a last one.

        The last one runs at normal priority, because the stop waits for it: at low priority it may
        take minutes on a busy machine.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if takes_snapshot:
            await self._run(niceness=0)

    async def _run(self, niceness: int = NICENESS) -> None:
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                # Keeps the working directory out of sys.path: a user's modules there are not ours.
                "-P",
                "-m",
                "coordination.server.disk.snapshotter",
                str(self._directory),
                stdin=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            # Such as a limit of processes. As below, nothing is lost.
            log.error("snapshot.failed", error=str(error))
            return
        if niceness:
            with contextlib.suppress(ProcessLookupError):
                # Set from here, so that even the start of the child does not slow down clients.
                os.setpriority(os.PRIO_PROCESS, child.pid, niceness)
        try:
            code = await child.wait()
        except asyncio.CancelledError:
            child.kill()
            await child.wait()
            self._delete_unfinished(child.pid)
            raise
        if code != 0:
            self._delete_unfinished(child.pid)
            # Nothing is lost, because the log is complete; the next roll retries.
            log.error("snapshot.failed", exit_code=code)
            return
        await delete_spent_files(self._directory)

    def _delete_unfinished(self, process_id: int) -> None:
        """Delete the file of a child that was killed; its space may be all that the log has."""
        suffix = state_snapshot.unfinished_suffix(process_id)
        for path in self._directory.glob(f"snap-*{suffix}"):
            with contextlib.suppress(OSError):
                path.unlink()


async def delete_spent_files(directory: Path) -> None:
    """Delete the files that two newer snapshots make superfluous; leave a rest to the next time."""
    for path in spent_files(directory):
        try:
            await aiofiles.os.remove(path)
        except OSError as error:
            log.error("file.not_deleted", file=path.name, error=str(error))
            return
        log.info("file.deleted", file=path.name)


def take_snapshot(directory: Path) -> int | None:
    """Write a snapshot of the closed segments; return its zxid, None if it is not newer."""
    with making_snapshot(directory):
        return _take_snapshot(directory)


def _take_snapshot(directory: Path) -> int | None:
    identity = read_identity(directory)
    recovered = recover(directory, identity, closed_only=True)
    zxid = recovered.state.zxid
    newest = snapshots_of(directory)
    if zxid == 0 or (newest and newest[0][0] >= zxid):
        return None
    state_snapshot.write(
        snapshot_path(directory, zxid), recovered.state, identity.store_id, recovered.last_crc
    )
    return zxid


def main(argv: list[str]) -> int:
    """Run the child; return its exit code."""
    set_up_logging()
    try:
        zxid = take_snapshot(Path(argv[0]))
    except (DataError, OSError) as error:
        log.error("snapshot.failed", error=str(error))
        return 1
    if zxid is not None:
        log.info("snapshot.written", zxid=zxid)
    return 0


if __name__ == "__main__":
    # Ctrl-C in a terminal reaches this process, too, which the stop of the coordinator ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
