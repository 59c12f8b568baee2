"""Fixtures of the broker's integration tests, with a real process (edge)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import READY_EVENT, WITHOUT_RETENTION, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, kill_all


@pytest.fixture(scope="module")
def shared_broker(
    tmp_path_factory: pytest.TempPathFactory, counted: Mapping[str, str]
) -> Iterator[BrokerProcess]:
    """One running broker for all tests of a module; it must stop in order after them."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), WITHOUT_RETENTION, counted)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
        assert broker.stop() == 0, broker.log_tail()
        failures = [event for event in broker.events if event["event"] == "connection.failed"]
        assert not failures, failures
    finally:
        broker.kill()


@pytest.fixture
def wire(shared_broker: BrokerProcess) -> Iterator[Wire]:
    """A connection to the shared broker."""
    with Wire(shared_broker.port) as connected:
        yield connected


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    """A coordinator in its own process.

    A test names it before `start_broker`, because a broker waits for its coordinator when it stops.
    """
    started = Coordinator(tmp_path / "coordinator")
    yield started
    kill_all([started])


@pytest.fixture(scope="module")
def shared_coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """One coordinator for all tests of a module."""
    started = Coordinator(tmp_path_factory.mktemp("shared") / "coordinator")
    yield started
    kill_all([started])
