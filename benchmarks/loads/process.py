"""A server process under measurement: start, pin, read its CPU time, stop (edge)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import AnyStr, Final, Self

SERVER_CORE: Final = 1
GENERATOR_CORE: Final = 0
START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 20.0
CONNECT_RETRY_S: Final = 0.005
HOST: Final = "127.0.0.1"


def free_port() -> int:
    """Return a currently unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def pin(pid: int, core: int) -> None:
    """Pin process `pid` to `core`, if the machine has that many cores."""
    if core in os.sched_getaffinity(0) or core < (os.cpu_count() or 1):
        os.sched_setaffinity(pid, {core})


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of all threads of process `pid` so far."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def end(process: subprocess.Popen[AnyStr], timeout_s: float) -> None:
    """Stop `process` cleanly, and kill it if that takes longer than `timeout_s`."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


class ServerProcess:
    """A child process that listens on `port`; `with` starts and stops it."""

    def __init__(
        self,
        arguments: Sequence[str],
        port: int,
        *,
        core: int = SERVER_CORE,
        log: Path | None = None,
        program: str = sys.executable,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.port = port
        self._arguments = [program, *arguments]
        self._start_timeout_s = start_timeout_s
        self._core = core
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Address as `host:port`, the form for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id; only valid between start and stop."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        output = self._log.open("ab") if self._log else subprocess.DEVNULL
        # Keep bytecode files, as an installed package has them.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            self._arguments, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        pin(self.pid, self._core)
        self._wait_until_listening()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        end(self._process, STOP_TIMEOUT_S)

    def cpu_s(self) -> float:
        """Return the CPU seconds of all threads so far, with nanosecond precision."""
        return cpu_s(self.pid)

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._arguments} exited with {self._process.returncode}")
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(CONNECT_RETRY_S)
            else:
                return
        raise RuntimeError(f"{self._arguments} did not listen within {self._start_timeout_s} s")
