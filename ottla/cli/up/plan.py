"""Processes of a cluster and their arguments (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
MAX_PORT: Final = 65_535
COORDINATOR: Final = "coordinator"
PID_FILE: Final = "pid"
LOG_FILE: Final = "log.jsonl"
SESSION_FILE: Final = "coordinator-session"
"""File in its first log directory in which a broker saves its coordinator session."""
SESSION_TIMEOUT_MS: Final = 1_000
CONNECTION_TIMEOUT_MS: Final = 30_000
MOST_REPLICAS: Final = 3
"""Default replication factor of a cluster with at least this number of brokers."""

OWN_KEYS: Final = ("broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir")
"""Keys that differ from broker to broker, so that an override for all brokers is an error."""


@dataclass(frozen=True, slots=True)
class Child:
    """One process: its name, data directory, address, and arguments after `ottla`."""

    name: str
    directory: Path
    address: str
    arguments: tuple[str, ...]
    broker_id: int | None = None
    """None for the coordinator."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All processes of a cluster. `coordinator` is None if brokers use an existing one."""

    directory: Path
    connect: str
    coordinator: Child | None
    brokers: tuple[Child, ...]

    @property
    def children(self) -> tuple[Child, ...]:
        """All children, in the order of their start."""
        return (() if self.coordinator is None else (self.coordinator,)) + self.brokers

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT,HOST:PORT,...` of all brokers."""
        return ",".join(broker.address for broker in self.brokers)


def make_plan(
    directory: Path,
    *,
    broker_ports: Sequence[int],
    coordinator_port: int,
    overrides: Mapping[str, str],
) -> ClusterPlan:
    """Return the plan of a cluster with a broker on each of `broker_ports`.

    `overrides` take precedence over the defaults. If they contain `zookeeper.connect`, the plan has
    no coordinator.

    Raises:
        ValueError: a port or an override cannot be used; the message names the remedy.
    """
    for port in broker_ports:
        if port > MAX_PORT:
            raise ValueError(
                f"{len(broker_ports)} brokers need ports up to {port}, beyond the maximum of "
                f"{MAX_PORT}: choose a lower --port"
            )
    for key in OWN_KEYS:
        if key in overrides:
            raise ValueError(f"{key} differs from broker to broker: `ottla up` chooses its value")
    coordinator = None
    connect = overrides.get("zookeeper.connect")
    if connect is None:
        connect = f"{HOST}:{coordinator_port}"
        coordinator = _coordinator(directory / COORDINATOR, connect)
    settings = {**_defaults(len(broker_ports)), **overrides, "zookeeper.connect": connect}
    brokers = tuple(
        _broker(directory, number, port, settings)
        for number, port in enumerate(broker_ports, start=1)
    )
    return ClusterPlan(directory, connect, coordinator, brokers)


def _defaults(broker_count: int) -> dict[str, str]:
    """Return our deviations from Kafka's defaults, which suit brokers on separate machines."""
    replicas = min(MOST_REPLICAS, broker_count)
    return {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        # Generous, because all processes start at the same time.
        "zookeeper.connection.timeout.ms": str(CONNECTION_TIMEOUT_MS),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": "2" if replicas >= MOST_REPLICAS else "1",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "2" if replicas >= MOST_REPLICAS else "1",
        # The last broker to stop has no successor for its partitions and must not wait long.
        "controlled.shutdown.retry.backoff.ms": "200",
    }


def _coordinator(directory: Path, address: str) -> Child:
    # Up to a hundred brokers connect from the same address.
    limits = ("--max-connections-per-address", "0")
    arguments = ("coordinator", "--listen", address, "--data-dir", str(directory), *limits)
    return Child(COORDINATOR, directory, address, arguments)


def _broker(directory: Path, number: int, port: int, settings: Mapping[str, str]) -> Child:
    address, place = f"{HOST}:{port}", directory / f"broker-{number}"
    own = {"broker.id": str(number), "listeners": f"PLAINTEXT://{address}", "log.dirs": str(place)}
    pairs = [f"{key}={value}" for key, value in {**settings, **own}.items()]
    arguments = ("broker", *(word for pair in pairs for word in ("--override", pair)))
    return Child(f"broker-{number}", place, address, arguments, number)
