"""Whether a broker is alive and ready: `broker.status.health`."""

from dataclasses import dataclass, field

from broker.status.gauges import BrokerState
from broker.status.health import fatal_troubles, troubles


@dataclass
class Broker:
    state: BrokerState = BrokerState.RUNNING
    failure: str | None = None
    is_registered: bool = True
    offline_dirs: list[str] = field(default_factory=list)
    unserved_count: int = 0


def test_a_broker_that_runs_and_serves_has_no_trouble() -> None:
    assert list(troubles(Broker())) == []
    assert list(fatal_troubles(Broker())) == []


def test_a_starting_broker_is_alive_and_not_ready() -> None:
    broker = Broker(state=BrokerState.PENDING_CONTROLLED_SHUTDOWN, is_registered=False)
    assert list(fatal_troubles(broker)) == []
    assert list(troubles(broker)) == ["the broker is pending controlled shutdown"]


def test_a_failed_broker_must_be_restarted() -> None:
    broker = Broker(failure="no log dir is left")
    assert list(fatal_troubles(broker)) == ["the broker has failed: no log dir is left"]
    assert list(troubles(broker)) == list(fatal_troubles(broker))


def test_each_trouble_is_named() -> None:
    broker = Broker(is_registered=False, offline_dirs=["/a"], unserved_count=2)
    assert list(troubles(broker)) == [
        "the broker is not registered with the coordinator",
        "log dir /a cannot be used",
        "2 partitions are not served",
    ]
