"""Processes of a cluster and their arguments (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.cli.up.secured import ADMIN, PROTOCOL, Security, broker_settings, check_overrides

HOST: Final = "127.0.0.1"
PLAINTEXT: Final = "PLAINTEXT"
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

LOGIN_KEY: Final = "java.security.auth.login.config"
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
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Content of its file of properties; empty if it has none. There may be secrets in it."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All processes of a cluster. `coordinator` is None if brokers use an existing one."""

    directory: Path
    connect: str
    coordinator: Child | None
    brokers: tuple[Child, ...]
    bootstrap: str
    """`HOST:PORT,HOST:PORT,...` of all brokers, as clients reach them."""
    coordinator_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of the brokers for connections to the coordinator."""
    security: Security | None = None

    @property
    def children(self) -> tuple[Child, ...]:
        """All children, in the order of their start."""
        return (() if self.coordinator is None else (self.coordinator,)) + self.brokers


def make_plan(
    directory: Path,
    *,
    broker_ports: Sequence[int],
    coordinator_port: int,
    overrides: Mapping[str, str],
    login_config: Path | None = None,
    security: Security | None = None,
    advertised_host: str | None = None,
) -> ClusterPlan:
    """Return the plan of a cluster with a broker on each of `broker_ports`.

    `overrides` take precedence over the defaults. If they contain `zookeeper.connect`, the plan has
    no coordinator; otherwise its coordinator serves only users in `login_config`, if given. With
    `advertised_host`, brokers listen on all interfaces.

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
    if security is not None:
        check_overrides(overrides)
    coordinator = None
    connect = overrides.get("zookeeper.connect")
    if connect is None:
        connect = f"{HOST}:{coordinator_port}"
        coordinator = _coordinator(directory / COORDINATOR, connect, login_config)
        if login_config is not None:
            overrides = {**overrides, LOGIN_KEY: str(login_config)}
    settings = {**_defaults(len(broker_ports)), **overrides, "zookeeper.connect": connect}
    listening = PLAINTEXT if security is None else PROTOCOL
    brokers = tuple(
        _broker(
            directory / f"broker-{number}",
            number,
            settings | _listeners(listening, port, advertised_host),
            security,
        )
        for number, port in enumerate(broker_ports, start=1)
    )
    at_coordinator = {
        key: value for key, value in settings.items() if key.startswith(("zookeeper.", LOGIN_KEY))
    }
    bootstrap = ",".join(_address(advertised_host or HOST, port) for port in broker_ports)
    return ClusterPlan(
        directory, connect, coordinator, brokers, bootstrap, at_coordinator, security
    )


def console_arguments(plan: ClusterPlan, port: int) -> tuple[str, ...]:
    """Return the arguments of the console of a cluster, after `ottla`."""
    connection: tuple[str, ...] = ("console", "--bootstrap", plan.bootstrap)
    if plan.security is not None:
        connection += ("--command-config", str(plan.security.files.properties(ADMIN)))
    log_dirs = tuple(word for each in plan.brokers for word in ("--log-dir", str(each.directory)))
    return (*connection, "--listen", _address(HOST, port), "--any-port", *log_dirs)


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


def _coordinator(directory: Path, address: str, login_config: Path | None) -> Child:
    # Up to a hundred brokers connect from the same address.
    limits = ("--max-connections-per-address", "0")
    # Other users of this machine can connect, too.
    login = ("--login-config", str(login_config), "--enforce-auth-schemes", "sasl")
    base = ("coordinator", "--listen", address, "--data-dir", str(directory), *limits)
    arguments = (*base, *login) if login_config is not None else base
    return Child(COORDINATOR, directory, address, arguments)


def _broker(
    place: Path, number: int, settings: Mapping[str, str], security: Security | None
) -> Child:
    own = {**settings, "broker.id": str(number), "log.dirs": str(place)}
    address = _address(HOST, int(own["listeners"].rpartition(":")[2]))
    if security is None:
        pairs = [f"{key}={value}" for key, value in own.items()]
        arguments = ("broker", *(word for pair in pairs for word in ("--override", pair)))
        return Child(place.name, place, address, arguments, number)
    own |= broker_settings(security, place.name)
    # Secrets may not stand in arguments, which every user of the machine can read.
    arguments = ("broker", str(security.files.properties(place.name)))
    return Child(place.name, place, address, arguments, number, own)


def _listeners(protocol: str, port: int, advertised_host: str | None) -> dict[str, str]:
    if advertised_host is None:
        return {"listeners": f"{protocol}://{_address(HOST, port)}"}
    return {
        "listeners": f"{protocol}://:{port}",
        "advertised.listeners": f"{protocol}://{_address(advertised_host, port)}",
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
