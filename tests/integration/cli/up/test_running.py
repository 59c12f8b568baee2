"""A cluster under `ottla up`: start, death of a broker, orderly stop without leftover processes."""

import asyncio
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ottla
from coordination.errors import ErrorCode
from coordination.protocol.messages import OpCode, ReadRequest
from tests.integration.cli.up.conftest import TIMEOUT_S, Up, described, is_running, start
from tests.integration.coordination.process import (
    POLL_INTERVAL_S,
    Coordinator,
    RawClient,
    wait_until,
)
from trust.jaas import parse_login_file


async def test_a_dead_broker_is_restarted_once_possible_and_all_processes_stop_in_order(
    started: list[Up], tmp_path: Path
) -> None:
    up = start(started, tmp_path)
    bootstrap = ",".join(up.events[0]["brokers"])
    async with ottla.Admin(bootstrap) as admin:
        cluster = await admin.describe_cluster()
        assert set(cluster.brokers) == {1, 2}
        await admin.create_topics([ottla.NewTopic("t", 4)])
        topic = await described(admin, "t")
        assert all(len(part.replicas) == 2 for part in topic.partitions)
        victim = f"broker-{cluster.controller_id}"
        before, obstacle = up.pid(victim), tmp_path / victim / "pid.tmp"
        # As on a full disk, the file with the process id cannot be written for a while.
        obstacle.mkdir()
        os.kill(before, signal.SIGKILL)
        died = up.wait_for("died")
        assert (died["name"], died["exit_code"], died["is_session_closed"]) == (victim, -9, True)
        refused = up.wait_for("notrestarted")
        assert (refused["name"], "pid.tmp" in refused["reason"]) == (victim, True)
        assert is_running(up.pid("coordinator"))
        obstacle.rmdir()
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


async def _wait_for_brokers(bootstrap: str, count: int) -> None:
    async with ottla.Admin(bootstrap) as admin:
        deadline_s = time.monotonic() + TIMEOUT_S
        while len((await admin.describe_cluster()).brokers) < count:
            assert time.monotonic() < deadline_s, f"fewer than {count} brokers are alive"
            await asyncio.sleep(POLL_INTERVAL_S)


def test_a_dead_broker_stays_down_without_restarts_and_strangers_are_not_served(
    started: list[Up], tmp_path: Path
) -> None:
    up = start(started, tmp_path, "--no-restart", "--brokers", "1")
    coordinator, login = up.events[0]["coordinator"], tmp_path / "coordinator-login.conf"
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    port = int(coordinator.rpartition(":")[2])
    with RawClient(port) as stranger:
        stranger.shake_hands()
        header, _ = stranger.ask(1, OpCode.GET_CHILDREN, ReadRequest("/", False))
        assert header.err == ErrorCode.SESSION_CLOSED_REQUIRE_SASL
        assert stranger.is_closed()
    [module] = parse_login_file(login.read_text())["Client"]
    assert module.login is not None
    password = module.login[1]
    for pid in (up.process.pid, *up.pids()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert password.encode() not in command
    for log in tmp_path.glob("*/log.jsonl"):
        assert password not in log.read_text()
    # The supervisor, too, has the password: it closes the session of a dead broker at once.
    os.kill(up.pid("broker-1"), signal.SIGKILL)
    died = up.wait_for("died")
    assert (died["is_session_closed"], died["restart_s"]) == (True, None)
    wait_until(lambda: len(up.pids()) == 1)
    assert up.end(signal.SIGINT) == 0


def test_existing_coordinator_is_used_and_children_die_with_a_killed_supervisor(
    started: list[Up], tmp_path: Path
) -> None:
    coordinator = Coordinator(tmp_path / "elsewhere")
    try:
        override = f"zookeeper.connect={coordinator.address}/a/chroot"
        up = start(started, tmp_path / "data", "--override", override, "--brokers", "1")
        assert up.events[0]["coordinator"] == f"{coordinator.address}/a/chroot"
        pids = up.pids()
        assert len(pids) == 1, "only the broker is a child process"
        assert all(map(is_running, pids))
        up.end(signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, pids)))
    finally:
        coordinator.kill()


def test_ready_line_is_printed_and_sighup_stops_all_processes_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli", "up", "--brokers", "1", "--port", "0"]
    command.append("--no-console")
    with subprocess.Popen(
        [*command, "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        _output, errors = process.communicate(timeout=TIMEOUT_S)
    assert line.startswith("ready 127.0.0.1:")
    assert errors.splitlines() == ["broker-1 stopped", "coordinator stopped"]
    assert process.returncode == 0


def check_restart_and_stop(process: subprocess.Popen[Any], directory: Path) -> None:
    """Kill the broker, wait until it runs again, and stop the cluster in order."""
    broker_log = directory / "broker-1" / "log.jsonl"
    os.kill(int((directory / "broker-1" / "pid").read_text()), signal.SIGKILL)
    wait_until(lambda: broker_log.read_text().count("broker.started") == 2, TIMEOUT_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert "broker.stopped" in broker_log.read_text()
    assert "coordinator.stopped" in (directory / "coordinator" / "log.jsonl").read_text()


def test_while_nothing_reads_the_reports_brokers_are_restarted_and_stopped_in_order(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "ottla.cli", "up", "--brokers", "1", "--port", "0"]
    command += ["--no-console", "--json"]
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, "rb", buffering=0) as reports,
        subprocess.Popen([*command, "--dir", str(tmp_path)], stdout=writer) as process,
    ):
        try:
            assert b'"event": "ready"' in reports.readline()
            os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)))
            check_restart_and_stop(process, tmp_path)
        finally:
            process.kill()
            os.close(writer)


def test_without_a_reader_of_the_reports_brokers_are_restarted_and_stopped_in_order(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "ottla.cli", "up", "--brokers", "1", "--port", "0"]
    command.append("--no-console")
    with subprocess.Popen(
        [*command, "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            process.stdout.close()
            check_restart_and_stop(process, tmp_path)
        finally:
            process.kill()
