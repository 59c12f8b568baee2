"""Messages to the service manager of a daemon, over a real socket."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from speedups.service_manager import ServiceManager

TIMEOUT_S = 30


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def received(manager: socket.socket) -> list[bytes]:
    found = []
    while True:
        try:
            found.append(manager.recv(100))
        except BlockingIOError:
            return found


async def test_start_and_stop_are_reported(manager: socket.socket) -> None:
    service = ServiceManager()
    service.ready()
    service.stopping()
    assert received(manager) == [b"READY=1", b"STOPPING=1"]


async def test_child_processes_do_not_inherit_the_manager(manager: socket.socket) -> None:
    ServiceManager()
    assert "NOTIFY_SOCKET" not in os.environ
    ServiceManager().ready()
    assert received(manager) == []


async def test_signs_of_life_continue(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    ServiceManager().ready()
    found: list[bytes] = []
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(TIMEOUT_S):
        while len(found) < 4:
            found.append(await loop.sock_recv(manager, 100))
    assert found == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.parametrize(("timeout_us", "pid"), [("", ""), ("0", ""), ("soon", ""), ("2000", "1")])
async def test_no_sign_of_life_is_sent_that_nobody_expects(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch, timeout_us: str, pid: str
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", timeout_us)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    ServiceManager().ready()
    assert received(manager) == [b"READY=1"]


async def test_a_manager_that_is_away_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().ready()


async def test_an_abstract_socket_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"ottla-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name)
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        ServiceManager().ready()
        assert received(receiver) == [b"READY=1"]
