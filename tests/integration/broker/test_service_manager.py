"""Both daemons report their start and stop to the service manager that started them."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.integration.coordination.process import Coordinator

TIMEOUT_S = 60


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(TIMEOUT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def test_a_broker_reports_its_start_and_stop(
    manager: socket.socket, start_broker: StartBroker
) -> None:
    broker = start_broker()
    assert manager.recv(100) == b"READY=1"
    assert broker.stop() == 0
    assert manager.recv(100) == b"STOPPING=1"


def test_a_coordinator_reports_its_start_and_stop(manager: socket.socket, tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "coordinator")
    assert manager.recv(100) == b"READY=1"
    coordinator.stop()
    assert manager.recv(100) == b"STOPPING=1"
