"""Keys of brokers for tests (decision): our deviations from Kafka's defaults, and their reasons."""

from collections.abc import Mapping, Sequence
from typing import Final

HOST: Final = "127.0.0.1"
CLIENTS_LISTENER: Final = "CLIENTS"
BROKERS_LISTENER: Final = "BROKERS"
MOST_REPLICAS: Final = 3
OWN_KEYS: Final = (
    "broker.id",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.dir",
    "zookeeper.connect",
)
"""Keys that the module chooses itself."""

QUICK: Final[Mapping[str, str]] = {
    # A group need not wait for more members before its first rebalance.
    "group.initial.rebalance.delay.ms": "0",
    # The first consumer of a group waits for the creation of all partitions.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Records of tests may have old timestamps, which retention would delete after 30 seconds.
    "log.initial.task.delay.ms": "3600000",
    # The last broker to stop cannot hand over, and must not wait long.
    "controlled.shutdown.retry.backoff.ms": "200",
}
AMONG_OTHERS: Final[Mapping[str, str]] = {
    # A broker that loses its connection is replaced soon. One that a busy machine stops for some
    # seconds is not: no test could rely on three brokers.
    "zookeeper.session.timeout.ms": "6000",
    # Generous, because all processes start at the same time.
    "zookeeper.connection.timeout.ms": "30000",
    # A hanging follower leaves the in-sync set soon; by default acks=all waits for half a minute.
    "replica.lag.time.max.ms": "3000",
}


def check_settings(settings: Mapping[str, str]) -> None:
    """Check settings of a test for its brokers.

    Raises:
        ValueError: a key is one that the module chooses.
    """
    for key in OWN_KEYS:
        if key in settings:
            raise ValueError(f"{key} differs between brokers and runs: ottla.testing chooses it")


def broker_settings(broker_count: int) -> dict[str, str]:
    """Return the keys of each broker in a cluster of `broker_count`."""
    if broker_count == 1:
        return dict(QUICK)
    replicas = min(MOST_REPLICAS, broker_count)
    in_sync = "2" if replicas == MOST_REPLICAS else "1"
    return {
        **QUICK,
        **AMONG_OTHERS,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
    }


def listener_settings(ports: tuple[int, int], advertised: tuple[int, int] | None) -> dict[str, str]:
    """Return the keys of the listeners for clients and for brokers, on their `ports`.

    With `advertised`, others connect to these ports instead, which lead to the listeners.
    """
    if advertised is None:
        return {"listeners": f"PLAINTEXT://{HOST}:{ports[0]}"}
    return {
        "listeners": _listeners(ports),
        "advertised.listeners": _listeners(advertised),
        "listener.security.protocol.map": (
            f"{CLIENTS_LISTENER}:PLAINTEXT,{BROKERS_LISTENER}:PLAINTEXT"
        ),
        "inter.broker.listener.name": BROKERS_LISTENER,
    }


def _listeners(ports: tuple[int, int]) -> str:
    return f"{CLIENTS_LISTENER}://{HOST}:{ports[0]},{BROKERS_LISTENER}://{HOST}:{ports[1]}"


def override_arguments(settings: Mapping[str, str]) -> Sequence[str]:
    """Return the arguments of a broker for its keys."""
    pairs = [f"{key}={value}" for key, value in settings.items()]
    return [word for pair in pairs for word in ("--override", pair)]
