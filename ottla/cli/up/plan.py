"""Processes of a cluster and their arguments (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.cli.up import machine as machines
from ottla.cli.up.machine import CONNECT_KEY, Machine
from ottla.cli.up.secured import (
    ADMIN,
    AT_COORDINATOR,
    PROTOCOL,
    Files,
    Security,
    broker_settings,
    check_overrides,
    coordinator_settings,
    is_loopback,
)

HOST: Final = "127.0.0.1"
ANY_IPV4: Final = "0.0.0.0"
ANY_IPV6: Final = "::"
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
    machine: Machine | None = None
    """None for a cluster on one machine."""

    @property
    def is_joined(self) -> bool:
        """Whether the brokers join a cluster that another machine has started."""
        return self.machine is not None and not self.machine.has_coordinator

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
    machine: Machine | None = None,
) -> ClusterPlan:
    """Return the plan of a cluster with a broker on each of `broker_ports`.

    `overrides` take precedence over the defaults. If they contain `zookeeper.connect`, or `machine`
    joins, the plan has no coordinator; otherwise its coordinator serves only users in
    `login_config`, if given. With `advertised_host`, brokers listen as `listening_host` says.

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
    if machine is not None:
        machines.check_overrides(overrides)
    coordinator = None
    connect = overrides.get(CONNECT_KEY)
    if machine is not None and not machine.has_coordinator:
        connect = machine.coordinator
    elif connect is None:
        coordinator = _coordinator(
            directory / COORDINATOR, coordinator_port, login_config, security, machine
        )
        connect = coordinator.address
    settings = _defaults(len(broker_ports))
    settings |= {} if machine is None else machine.defaults()
    settings |= {**overrides, CONNECT_KEY: connect}
    if login_config is not None and CONNECT_KEY not in overrides:
        settings[LOGIN_KEY] = str(login_config)
    if security is not None and coordinator is None and machine is not None:
        settings |= coordinator_settings(security.files, "broker-1")
    listening = PLAINTEXT if security is None else PROTOCOL
    ids = (machine and machine.generated_ids) or range(1, len(broker_ports) + 1)
    brokers = tuple(
        _broker(
            directory / f"broker-{number}",
            broker_id,
            settings
            | ({} if machine is None else machine.own())
            | _listeners(listening, port, advertised_host),
            security,
        )
        for number, (broker_id, port) in enumerate(zip(ids, broker_ports, strict=True), start=1)
    )
    bootstrap = ",".join(address_of(advertised_host or HOST, port) for port in broker_ports)
    return ClusterPlan(
        directory,
        connect,
        coordinator,
        brokers,
        bootstrap,
        _at_coordinator(settings),
        security,
        machine,
    )


def listening_host(advertised_host: str | None) -> str:
    """Return the address that the servers of this machine listen on; "" is all interfaces.

    They listen on this machine only, unless others shall find them at `advertised_host`, which may
    be a name, or the address of a gateway.
    """
    if advertised_host is None:
        return HOST
    return advertised_host if is_loopback(advertised_host) else ""


def _at_coordinator(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of the connection to the coordinator."""
    return {
        key: value for key, value in settings.items() if key.startswith(("zookeeper.", LOGIN_KEY))
    }


def console_arguments(plan: ClusterPlan, port: int) -> tuple[str, ...]:
    """Return the arguments of the console of a cluster, after `ottla`."""
    connection: tuple[str, ...] = ("console", "--bootstrap", plan.bootstrap)
    if plan.security is not None:
        connection += ("--command-config", str(plan.security.files.properties(ADMIN)))
    log_dirs = tuple(word for each in plan.brokers for word in ("--log-dir", str(each.directory)))
    return (*connection, "--listen", address_of(HOST, port), "--any-port", *log_dirs)


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


def _coordinator(
    directory: Path,
    port: int,
    login_config: Path | None,
    security: Security | None,
    machine: Machine | None,
) -> Child:
    address = address_of(HOST, port)
    tls: tuple[str, ...] = ()
    if machine is not None and security is None:
        address = machine.coordinator
    elif machine is not None and security is not None:
        tls = _tls_listener(security.files, machine)
    # Up to a hundred brokers connect from the same address.
    limits = ("--max-connections-per-address", "0")
    # Other users of this machine can connect, too.
    login = ("--login-config", str(login_config), "--enforce-auth-schemes", "sasl")
    base = ("coordinator", "--listen", address, "--data-dir", str(directory), *limits, *tls)
    arguments = (*base, *login) if login_config is not None else base
    return Child(COORDINATOR, directory, address, arguments)


def _tls_listener(files: Files, machine: Machine) -> tuple[str, ...]:
    """Return the options of a listener for other machines, which need certificates."""
    port = machine.coordinator.rpartition(":")[2]
    everywhere = ANY_IPV6 if ":" in machine.host else ANY_IPV4
    listen = address_of(listening_host(machine.host) or everywhere, int(port))
    own = str(files.store(AT_COORDINATOR))
    identity = ("--tls-cert", own, "--tls-key", own, "--tls-ca", str(files.trusted))
    return ("--tls-listen", listen, *identity)


def _broker(
    place: Path, broker_id: int, settings: Mapping[str, str], security: Security | None
) -> Child:
    own = {**settings, "broker.id": str(broker_id), "log.dirs": str(place)}
    host, _, port = own["listeners"].partition("://")[2].rpartition(":")
    # The supervisor itself stays on this machine.
    address = f"{host or HOST}:{port}"
    if security is None:
        pairs = [f"{key}={value}" for key, value in own.items()]
        arguments = ("broker", *(word for pair in pairs for word in ("--override", pair)))
        return Child(place.name, place, address, arguments, broker_id)
    own |= broker_settings(security, place.name)
    # Secrets may not stand in arguments, which every user of the machine can read.
    arguments = ("broker", str(security.files.properties(place.name)))
    return Child(place.name, place, address, arguments, broker_id, own)


def _listeners(protocol: str, port: int, advertised_host: str | None) -> dict[str, str]:
    listeners = f"{protocol}://{address_of(listening_host(advertised_host), port)}"
    if advertised_host is None:
        return {"listeners": listeners}
    return {
        "listeners": listeners,
        "advertised.listeners": f"{protocol}://{address_of(advertised_host, port)}",
    }


def address_of(host: str, port: int) -> str:
    """Return `HOST:PORT`; an address of IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
