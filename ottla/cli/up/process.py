"""A child process of the supervisor (edge): starts it, waits for its exit, stops it.

The child has a process group of its own, so that Ctrl-C reaches only the supervisor. The kernel
kills the child when the supervisor dies, even of SIGKILL.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.cli.up.plan import LOG_FILE, PID_FILE, Child

_PR_SET_PDEATHSIG: Final = 1
_LAST_BYTES: Final = 8_192


class ChildProcess:
    """A running child process."""

    def __init__(self, child: Child, process: asyncio.subprocess.Process) -> None:
        self.child = child
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which the file `pid` contains too."""
        return self._process.pid

    async def wait(self) -> int:
        """Return the exit code, negative for a signal, once the process has exited."""
        code = await self._process.wait()
        # The disk may have failed: the next start reports that.
        with contextlib.suppress(OSError):
            (self.child.directory / PID_FILE).unlink(missing_ok=True)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has exited."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, timeout_s: float) -> int:
        """Send SIGTERM, and SIGKILL after `timeout_s`; return the exit code."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                return await self.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await self.wait()


async def launch(child: Child) -> ChildProcess:
    """Start `child`, with its output appended to a log file in its directory.

    Raises:
        OSError: the directory cannot be used, or there are too many processes.
    """
    child.directory.mkdir(parents=True, exist_ok=True)
    with (child.directory / LOG_FILE).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Ignores the working directory, which may contain unrelated modules.
            "-P",
            "-m",
            "ottla.cli",
            *child.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=die_with_parent(os.getpid()),
        )
    started = ChildProcess(child, process)
    try:
        _write_pid(child.directory / PID_FILE, process.pid)
    except OSError:
        # Unknown to the supervisor, it would keep the next one from the directory.
        started.send(signal.SIGKILL)
        await started.wait()
        raise
    return started


def die_with_parent(parent: int) -> Callable[[], None]:
    """Return a function for a child to run between fork and exec, so that it dies with `parent`.

    The system kills the child as soon as the thread of process `parent` that started it ends.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the call of prctl.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _write_pid(path: Path, pid: int) -> None:
    temporary = path.with_name(PID_FILE + ".tmp")
    temporary.write_text(f"{pid}\n")
    temporary.replace(path)


def last_log_line(child: Child) -> str:
    """Return the last line of the child's log, or "" if the log is empty."""
    path = child.directory / LOG_FILE
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LAST_BYTES))
        lines = log.read().decode("utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
