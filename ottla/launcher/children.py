"""Forks daemons and waits for their ends (edge).

A child has a process group of its own, so that Ctrl-C reaches only the program that wanted it, and
the kernel kills it when this process dies. This process has one thread, so a fork is safe.
"""

import ctypes
import errno
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The daemons' modules, imported before any fork.
import broker.__main__
import broker.daemon
import broker.log_setup
import coordination.__main__
import ottla.testing.network.proxy
from ottla.launcher.disk_fault import DiskFault, skip_syncs
from ottla.launcher.session_end import end_session

Program = Callable[[Sequence[str]], int]
PROGRAMS: Final[Mapping[str, Program]] = {
    "broker": broker.__main__.main,
    "coordinator": lambda arguments: coordination.__main__.main(list(arguments)),
    "network": ottla.testing.network.proxy.main,
    "session-end": end_session,
}
EXIT_CRASHED: Final = 1
MAX_FORKS: Final = 1_000
"""Forks until one has a new process id; ids of ended children are often a sequence."""
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a child: its process id, and its exit code, negative for a signal."""

    pid: int
    code: int


class Children:
    """The running children. No two children ever have the same process id."""

    def __init__(self) -> None:
        self._full: dict[int, mmap.mmap] = {}
        """A byte of memory shared with each child: not zero while its disk is full."""
        self._ended: set[int] = set()

    def start(self, program: str, arguments: Sequence[str], output: Path) -> int:
        """Fork a child that runs `program` and appends its output to a file; return its id.

        Raises:
            KeyError: there is no such program.
            OSError: the file cannot be opened, or the system cannot fork, or only with old ids.
        """
        run = PROGRAMS[program]
        full = mmap.mmap(-1, 1)
        launcher = os.getpid()
        log = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            pid = self._fork()
            if not pid:
                _become(run, (program, *arguments), log, full, launcher)
        finally:
            os.close(log)
        self._full[pid] = full
        return pid

    def _fork(self) -> int:
        """Fork a child whose id no earlier child had; return 0 in it, and the id here."""
        for _ in range(MAX_FORKS):
            pid = os.fork()
            if pid and pid not in self._ended:
                return pid
            if pid:
                os.waitpid(pid, 0)
            elif os.getpid() not in self._ended:
                return 0
            else:
                # The system gives ids again after some 30,000 processes. The program that wants
                # this child may still know the earlier one by this id, and would confuse them.
                os._exit(0)
        raise ChildProcessError(errno.EAGAIN, f"the system gave {MAX_FORKS} old process ids")

    def send(self, pid: int, number: int) -> None:
        """Send a signal to a child, unless it has exited."""
        if pid in self._full:
            os.kill(pid, number)

    def fill_disk(self, pid: int, *, is_full: bool) -> None:
        """Let the disk of a child appear full, or no longer full."""
        if pid in self._full:
            self._full[pid][0] = is_full

    def reap(self) -> list[Exit]:
        """Return the children that have exited since the last call."""
        found = []
        for pid in list(self._full):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._full.pop(pid).close()
                self._ended.add(pid)
                found.append(Exit(pid, os.waitstatus_to_exitcode(status)))
        return found

    def kill_all(self) -> None:
        """Kill the children and wait for their ends."""
        for pid in self._full:
            os.kill(pid, signal.SIGKILL)
        for pid in self._full:
            os.waitpid(pid, 0)


def _become(run: Program, words: Sequence[str], log: int, full: mmap.mmap, launcher: int) -> None:
    """Run a program in the forked process, and exit."""
    code = EXIT_CRASHED
    try:
        _detach(log, launcher)
        DiskFault(full).install()
        skip_syncs()
        sys.argv = list(words)
        code = run(words[1:])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else EXIT_CRASHED
    except BaseException:  # noqa: BLE001,RUF100 - nothing may return into the parent's loop
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            # Also without space for the output: nothing may return into the parent's loop.
            os._exit(code)


def _detach(log: int, launcher: int) -> None:
    """Separate the forked process from its parent's streams, signals and terminal."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the call of prctl.
    if os.getppid() != launcher:
        os._exit(EXIT_CRASHED)
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(log, 1)
    os.dup2(log, 2)
