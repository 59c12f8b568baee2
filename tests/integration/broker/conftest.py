"""Fixtures of the broker's own tests. An edge: a real process."""

from collections.abc import Iterator

import pytest

from tests.conftest import READY_EVENT, BrokerProcess


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One running broker for all tests of a module, which must stop in order after all of them."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), {})
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
        assert broker.stop() == 0, broker.log_tail()
        failures = [event for event in broker.events if event["event"] == "connection.failed"]
        assert not failures, failures
    finally:
        broker.kill()
