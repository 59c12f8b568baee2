"""Prepares the cluster that the options of `ottla up` describe (composition)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.cli.failure import usage_error
from ottla.cli.up.cluster_resources import require_free, reserve_ports
from ottla.cli.up.coordinator_login import FILE as LOGIN_FILE
from ottla.cli.up.coordinator_login import kept_password, write_login
from ottla.cli.up.joining import coordinator_address, join, own_address, resolve
from ottla.cli.up.machine import DEFAULT_RESERVED, MAX_BROKERS, RESERVED_KEY, Machine
from ottla.cli.up.plan import (
    HOST,
    LOGIN_KEY,
    ClusterPlan,
    address_of,
    listening_host,
    make_plan,
)
from ottla.cli.up.report import report_json, report_line
from ottla.cli.up.secured import (
    AT_COORDINATOR,
    Security,
    coordinator_settings,
    hosts_of,
    is_host,
    is_loopback,
)
from ottla.cli.up.security_folder import (
    open_security,
    refuse_secured,
    require_copies,
    write_configurations,
)

DEFAULT_BROKERS: Final = 3
COORDINATOR_PORT: Final = 2181
"""Port at which other machines find the coordinator by default."""
MAX_RESERVED: Final = 999_999_999
"""Largest value of `reserved.broker.max.id`; the ids above it have four bytes, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of `ottla up` that shape the cluster."""

    directory: Path
    broker_count: int | None
    port: int
    coordinator_port: int
    overrides: Mapping[str, str] = field(repr=False)
    is_secure: bool
    advertised_host: str | None
    is_joinable: bool
    join: str | None
    is_json: bool

    @property
    def is_over_several(self) -> bool:
        """Whether the cluster runs on several machines."""
        return self.is_joinable or self.join is not None

    @property
    def brokers(self) -> int:
        """Number of brokers on this machine: over several machines one per core."""
        default = min(core_count(), MAX_BROKERS) if self.is_over_several else DEFAULT_BROKERS
        return self.broker_count or default


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_options(wanted: Wanted) -> None:
    """Refuse options that contradict each other, or that no broker can use.

    Raises:
        CommandError: there is one.
    """
    if "," in str(wanted.directory):
        # It would separate two log directories: all brokers would share the first one.
        usage_error(f"--dir must not contain a comma, got {wanted.directory}: choose another.")
    host = wanted.advertised_host
    if host is not None and not is_host(host):
        usage_error(f"--advertised-host must be a name or an address, got {host!r}.")
    if host is not None and not wanted.is_secure:
        _require_loopback(host)
    if wanted.is_joinable and wanted.join is not None:
        usage_error("--joinable is for the machine with the coordinator, --join for the others.")
    if wanted.is_joinable and host is None:
        usage_error("--joinable needs --advertised-host: the way of other machines to this one.")
    if wanted.join is not None and wanted.coordinator_port:
        usage_error("--coordinator-port is for the machine with the coordinator, not for --join.")


def prepare(wanted: Wanted) -> ClusterPlan:
    """Return the plan of the processes of this machine, with all files that they need.

    The caller has claimed the directory.

    Raises:
        CommandError: the cluster cannot start; the message names the remedy.
    """
    coordinator = None if wanted.join is None else coordinator_address(wanted.join)
    host = wanted.advertised_host
    if coordinator is not None and host is None:
        host = own_address(coordinator)
        if not wanted.is_secure:
            _require_loopback(host)
    if wanted.is_over_several and host is not None:
        resolve(host, "--advertised-host")
    security = _security(wanted, host)
    login_config = _login_config(wanted, security)
    machine = _machine(wanted, host, coordinator, security, login_config)
    plan = _plan(wanted, host, machine, security, login_config)
    if security is not None:
        write_configurations(plan)
    return plan


def _require_loopback(host: str) -> None:
    if not is_loopback(host):
        usage_error(f"the address {host} opens the brokers to the network: add --secure.")


def _security(wanted: Wanted, host: str | None) -> Security | None:
    if not wanted.is_secure:
        refuse_secured(wanted.directory)
        return None
    if wanted.join is not None:
        require_copies(wanted.directory)
    servers = [f"broker-{number}" for number in range(1, wanted.brokers + 1)]
    return open_security(
        wanted.directory,
        servers=[*servers, AT_COORDINATOR] if wanted.is_joinable else servers,
        hosts=hosts_of(host),
        now=datetime.now(UTC),
        report=report_json if wanted.is_json else report_line,
    )


def _login_config(wanted: Wanted, security: Security | None) -> Path | None:
    """Write the login at the coordinator; None if there is none."""
    directory = wanted.directory
    if not wanted.is_over_several:
        return write_login(directory).absolute()
    if security is not None:
        return write_login(directory, security.passwords[AT_COORDINATOR]).absolute()
    if wanted.is_joinable:
        return write_login(directory, kept_password(directory)).absolute()
    path = directory / LOGIN_FILE
    return path.absolute() if path.exists() else None


def _machine(
    wanted: Wanted,
    host: str | None,
    coordinator: str | None,
    security: Security | None,
    login_config: Path | None,
) -> Machine | None:
    if host is None or not wanted.is_over_several:
        return None
    if coordinator is None:
        port = wanted.coordinator_port or COORDINATOR_PORT
        return Machine(host=host, coordinator=address_of(host, port))
    settings = {} if login_config is None else {LOGIN_KEY: str(login_config)}
    if security is not None:
        settings |= coordinator_settings(security.files, "broker-1")
    ids = join(
        coordinator,
        [wanted.directory / f"broker-{number}" for number in range(1, wanted.brokers + 1)],
        settings=settings,
        reserved_max_id=_reserved_max_id(wanted.overrides),
    )
    return Machine(host=host, coordinator=coordinator, generated_ids=ids)


def _reserved_max_id(overrides: Mapping[str, str]) -> int:
    text = overrides.get(RESERVED_KEY, str(DEFAULT_RESERVED))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_RESERVED))):
        usage_error(f"{RESERVED_KEY} must be a number up to {MAX_RESERVED}, got {text!r}.")
    return int(text)


def _plan(
    wanted: Wanted,
    host: str | None,
    machine: Machine | None,
    security: Security | None,
    login_config: Path | None,
) -> ClusterPlan:
    listening = listening_host(host)
    count, first = wanted.brokers, wanted.port
    open_port = wanted.coordinator_port
    if machine is not None and machine.has_coordinator:
        open_port = int(machine.coordinator.rpartition(":")[2])
    if first == 0:
        ports = reserve_ports(count, listening, but=[open_port])
    else:
        ports = list(range(first, first + count))
    # A secured coordinator has a second listener, for this machine only.
    has_second = machine is not None and security is not None
    own_port = open_port
    if has_second or not open_port:
        [own_port] = reserve_ports(1, but=[*ports, open_port])
    try:
        plan = make_plan(
            wanted.directory,
            broker_ports=ports,
            coordinator_port=own_port,
            overrides=wanted.overrides,
            login_config=login_config,
            security=security,
            advertised_host=host,
            machine=machine,
        )
    except ValueError as error:
        usage_error(str(error))
    require_free(ports, listening)
    if open_port and plan.coordinator is not None:
        if open_port in ports:
            usage_error(f"port {open_port} is for the coordinator and a broker: choose another.")
        require_free([open_port], HOST if machine is None else listening)
    return plan
