"""`ottla up` as a process of its own, killed at the end of a test."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.admin_model import TopicDescription
from ottla.client.errors import UnknownTopicError
from tests.integration.coordination.process import POLL_INTERVAL_S, wait_until

TIMEOUT_S = 60


class Up:
    """`ottla up --json` as a process of its own; a thread collects its events."""

    def __init__(self, directory: Path, *options: str, console: str = "--no-console") -> None:
        self.directory = directory
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ottla.cli", "up", "--json", console),
                *("--port", "0", "--brokers", "2", "--dir", str(directory), *options),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.events.append(json.loads(line))

    def wait_for(self, name: str) -> dict[str, Any]:
        """Return the first event of that name."""
        wait_until(lambda: name in [each["event"] for each in self.events], TIMEOUT_S)
        return next(each for each in self.events if each["event"] == name)

    def pid(self, child: str) -> int:
        return int((self.directory / child / "pid").read_text())

    def pids(self) -> list[int]:
        return [int(path.read_text()) for path in sorted(self.directory.glob("*/pid"))]

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code


@pytest.fixture
def started() -> Iterator[list[Up]]:
    running: list[Up] = []
    yield running
    for up in running:
        up.end(signal.SIGKILL)


def start(started: list[Up], directory: Path, *options: str) -> Up:
    up = Up(directory, *options)
    started.append(up)
    up.wait_for("ready")
    return up


async def described(admin: ottla.Admin, name: str) -> TopicDescription:
    """Return a topic that was just created, once the metadata of the broker contain it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return (await admin.describe_topics([name]))[name]
        except UnknownTopicError:
            assert time.monotonic() < deadline_s, f"the broker does not know topic {name}"
        await asyncio.sleep(POLL_INTERVAL_S)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        # The second one if it ends between the opening and the reading of the file.
        return False
