"""A cluster under `ottla up`: start, death of a broker, orderly stop without leftover processes."""

import asyncio
import json
import os
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
from tests.integration.coordination.process import POLL_INTERVAL_S, Coordinator, wait_until

TIMEOUT_S = 60


class Up:
    """`ottla up --json` as a process of its own; a thread collects its events."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ottla.cli", "up", "--json"),
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


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_sighup_stops_all_processes_in_order(started: list[Up], tmp_path: Path) -> None:
    up = start(started, tmp_path)
    assert up.end(signal.SIGHUP) == 0
    stopped = [
        (each["name"], each["exit_code"]) for each in up.events if each["event"] == "stopped"
    ]
    assert stopped == [("broker-1", 0), ("broker-2", 0), ("coordinator", 0)]


async def test_dead_broker_is_restarted_and_all_processes_stop_in_order(
    started: list[Up], tmp_path: Path
) -> None:
    up = start(started, tmp_path)
    bootstrap = ",".join(up.events[0]["brokers"])
    async with ottla.Admin(bootstrap) as admin:
        cluster = await admin.describe_cluster()
        assert set(cluster.brokers) == {1, 2}
        await admin.create_topics([ottla.NewTopic("t", 4)])
        topic = await _described(admin, "t")
        assert all(len(part.replicas) == 2 for part in topic.partitions)
        victim = f"broker-{cluster.controller_id}"
        before = up.pid(victim)
        os.kill(before, signal.SIGKILL)
        died = up.wait_for("died")
        assert (died["name"], died["exit_code"], died["is_session_closed"]) == (victim, -9, True)
        assert up.wait_for("started")["pid"] == up.pid(victim) != before
        await _wait_for_brokers(bootstrap, 2)
    pids = up.pids()
    assert len(pids) == 3
    assert up.end(signal.SIGTERM) == 0
    stopped = [each["name"] for each in up.events if each["event"] == "stopped"]
    assert stopped == ["broker-1", "broker-2", "coordinator"]
    assert all(each["exit_code"] == 0 for each in up.events if each["event"] == "stopped")
    assert not any(map(is_running, pids))
    assert up.pids() == []


async def _described(admin: ottla.Admin, name: str) -> TopicDescription:
    """Return a topic that was just created, once the metadata of the broker contain it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return (await admin.describe_topics([name]))[name]
        except UnknownTopicError:
            assert time.monotonic() < deadline_s, f"the broker does not know topic {name}"
        await asyncio.sleep(POLL_INTERVAL_S)


async def _wait_for_brokers(bootstrap: str, count: int) -> None:
    async with ottla.Admin(bootstrap) as admin:
        deadline_s = time.monotonic() + TIMEOUT_S
        while len((await admin.describe_cluster()).brokers) < count:
            assert time.monotonic() < deadline_s, f"fewer than {count} brokers are alive"
            await asyncio.sleep(POLL_INTERVAL_S)


def test_no_restart_leaves_a_dead_broker_down(started: list[Up], tmp_path: Path) -> None:
    up = start(started, tmp_path, "--no-restart")
    os.kill(up.pid("broker-2"), signal.SIGKILL)
    assert up.wait_for("died")["restart_s"] is None
    wait_until(lambda: len(up.pids()) == 2)
    assert up.end(signal.SIGINT) == 0


def test_existing_coordinator_is_used(started: list[Up], tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "elsewhere")
    try:
        override = f"zookeeper.connect={coordinator.address}/a/chroot"
        up = start(started, tmp_path / "data", "--override", override)
        assert up.events[0]["coordinator"] == f"{coordinator.address}/a/chroot"
        assert len(up.pids()) == 2, "only the brokers are child processes"
        assert up.end(signal.SIGTERM) == 0
    finally:
        coordinator.kill()


def test_children_die_with_a_killed_supervisor(started: list[Up], tmp_path: Path) -> None:
    up = start(started, tmp_path)
    pids = up.pids()
    assert all(map(is_running, pids))
    up.end(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)))


def test_ready_line_is_printed_to_standard_output(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli", "up", "--brokers", "1", "--port", "0"]
    with subprocess.Popen(
        [*command, "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        _output, errors = process.communicate(timeout=TIMEOUT_S)
    assert line.startswith("ready 127.0.0.1:")
    assert errors.splitlines() == ["broker-1 stopped", "coordinator stopped"]
    assert process.returncode == 0
