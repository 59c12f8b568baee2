"""The servers of the coordination load: ours, and Debian's ZooKeeper as reference (edge)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.loads.process import HOST, free_port

CLASSPATH: Final = "/usr/share/java/zookeeper.jar"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.005
_PAUSE: Final = threading.Event()


def has_zookeeper() -> bool:
    """Whether the reference is installed (`apt-get install zookeeper`)."""
    return shutil.which("java") is not None and Path(CLASSPATH).exists()


class Running:
    """A server that listens on `port`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, started_in_s: float) -> None:
        self.process = process
        self.port = port
        self.started_in_s = started_in_s

    @property
    def address(self) -> str:
        """Address as `host:port`, the form for clients."""
        return f"{HOST}:{self.port}"

    def resident_bytes(self) -> int:
        """Return the resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def coordinator(directory: Path) -> Iterator[Running]:
    """Run our coordinator on `directory`, with a synced log."""
    port = free_port()
    command = [sys.executable, "-m", "coordination"]
    command += [f"--listen={HOST}:{port}", f"--data-dir={directory}"]
    with _running(command, port, directory.with_suffix(".log")) as server:
        yield server


@contextmanager
def zookeeper(directory: Path) -> Iterator[Running]:
    """Run ZooKeeper on `directory`, with a synced log, which is its default."""
    port = free_port()
    (directory / "data").mkdir(parents=True, exist_ok=True)
    config = directory / "zoo.cfg"
    config.write_text(
        f"tickTime=2000\ndataDir={directory / 'data'}\nclientPort={port}\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = ["java", "-cp", CLASSPATH, main, str(config)]
    with _running(command, port, directory / "log") as server:
        yield server


@contextmanager
def _running(command: list[str], port: int, log: Path) -> Iterator[Running]:
    began_s = time.perf_counter()
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_until_serving(process, port)
        yield Running(process, port, time.perf_counter() - began_s)
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def _wait_until_serving(process: subprocess.Popen[bytes], port: int) -> None:
    deadline_s = time.perf_counter() + START_TIMEOUT_S
    while not _is_serving(port):
        if process.poll() is not None or time.perf_counter() > deadline_s:
            raise RuntimeError(f"{process.args!r} did not start")
        _PAUSE.wait(POLL_INTERVAL_S)


def _is_serving(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(65536)
    except OSError:
        return False
