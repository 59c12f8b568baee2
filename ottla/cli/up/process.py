"""A child of the supervisor (edge): starts it, waits for its end, ends it.

It has a process group of its own, so that Ctrl-C reaches the supervisor alone; and the kernel
kills it when the supervisor is gone, however that died.
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
    """A running child; `wait` returns when it has ended."""

    def __init__(self, child: Child, process: asyncio.subprocess.Process) -> None:
        self.child = child
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which stands in the file `pid` as well."""
        return self._process.pid

    async def wait(self) -> int:
        """Return the exit code, negative for a signal, once the process has ended."""
        code = await self._process.wait()
        (self.child.directory / PID_FILE).unlink(missing_ok=True)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, timeout_s: float) -> int:
        """Ask it to stop (SIGTERM), kill it after `timeout_s`; return the exit code."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                return await self.wait()
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await self.wait()


async def launch(child: Child) -> ChildProcess:
    """Start `child`; what it writes goes to a file in its directory.

    Raises:
        OSError: its directory cannot be used.
    """
    child.directory.mkdir(parents=True, exist_ok=True)
    with (child.directory / LOG_FILE).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Without the working directory: what a user keeps there is not ours.
            "-P",
            "-m",
            "ottla.cli",
            *child.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_die_with_parent(os.getpid()),
        )
    _write_pid(child.directory / PID_FILE, process.pid)
    return ChildProcess(child, process)


def _die_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child runs before it becomes its program."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died in between.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _write_pid(path: Path, pid: int) -> None:
    temporary = path.with_name(PID_FILE + ".tmp")
    temporary.write_text(f"{pid}\n")
    temporary.replace(path)


def last_words(child: Child) -> str:
    """Return the last line that the child wrote, "" when there is none."""
    path = child.directory / LOG_FILE
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _LAST_BYTES))
        lines = log.read().decode("utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
