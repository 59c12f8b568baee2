"""Edge: our daemons in separate processes, forked from a process that has imported them.

Imports dominate the start of a daemon, and the tests start hundreds. Such a process runs `__main__`
as `python -m` does, with its own arguments, environment and streams, but it does not start its own
interpreter. A test of the interpreter's start needs `subprocess` instead.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import IO, Final

from monitoring.log_lines import discard_unwritable
from tests import planted_secrets
from tests.clocks import replace_clock

_CONTEXT: Final = multiprocessing.get_context("forkserver")
# The first module enables the compiled modules, which users' daemons run with too.
_CONTEXT.set_forkserver_preload(
    ["tests.compiled", "tests.programs", "broker.daemon", "coordination.__main__"]
)


class Program:
    """`python -m MODULE ARGUMENT...`, with a part of the interface of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdout: int | IO[str] = subprocess.DEVNULL,
        stderr: int | IO[str] = subprocess.DEVNULL,
    ) -> None:
        self.stdout, output = _stream(stdout)
        self.stderr, errors = _stream(stderr)
        with output, errors:
            self._process = _CONTEXT.Process(
                target=_run,
                args=(module, arguments, dict(os.environ), output, errors),
                daemon=True,
            )
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises:
            subprocess.TimeoutExpired: the process did not end within the timeout.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # It may end in between, and only then the exit code arrives here.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _stream(chosen: int | IO[str]) -> tuple[IO[str] | None, Connection]:
    """Return our end of a stream, if any, and the program's end."""
    if chosen == subprocess.PIPE:
        ours, theirs = os.pipe()
        return os.fdopen(ours, encoding="utf-8"), Connection(theirs, readable=False)
    if isinstance(chosen, int):
        return None, Connection(os.open(os.devnull, os.O_WRONLY), readable=False)
    return None, Connection(os.dup(chosen.fileno()), readable=False)


def _run(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: Connection,
    errors: Connection,
) -> None:
    """Run the program, in the forked process."""
    for number, stream in ((1, output), (2, errors)):
        os.dup2(stream.fileno(), number)
        stream.close()
    os.environ.clear()
    os.environ.update(environment)
    replace_clock()
    planted_secrets.note_process()
    planted_secrets.check("arguments", arguments)
    planted_secrets.watch_configs()
    sys.argv = [module, *arguments]
    # Here `multiprocessing` ends the process, which does not run the functions of `atexit`.
    with ExitStack() as stack:
        stack.callback(discard_unwritable)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
