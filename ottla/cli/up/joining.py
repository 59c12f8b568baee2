"""Enters this machine's brokers into a cluster that another machine has started (edge).

The coordinator generates the ids of new brokers, as for Kafka's `broker.id=-1`: each write to its
node of the sequence has another version, however many machines join at the same time. A broker that
was here before keeps the id in its `meta.properties`.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.cluster.coordinator_security import CoordinatorSecurity, coordinator_security
from broker.cluster.identity import Past, Remembered, check_cluster, recall
from broker.config.coordinator_keys import coordinator_keys_of
from broker.errors import StartupError
from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import decode_cluster_id, generated_broker_id
from coordination.client import Client
from coordination.client.hosts import parse_connect_string
from coordination.errors import CoordinationError, ErrorCode, NoNodeError, OperationError
from kafkawire.ids import BrokerId
from ottla.cli.failure import EXIT_USAGE, CommandError
from storage.directory.meta_properties import read_meta_properties
from storage.errors import StorageError

JOIN_TIMEOUT_S: Final = 15.0
"""Allows for a coordinator and brokers that start at the same time."""
RETRY_S: Final = 0.1
META_PROPERTIES: Final = "meta.properties"
REFUSED_WITHOUT_LOGIN: Final = (
    ErrorCode.SESSION_CLOSED_REQUIRE_SASL,
    ErrorCode.AUTH_FAILED,
    ErrorCode.NO_AUTH,
)


def coordinator_address(text: str) -> str:
    """Return `text` as `HOST:PORT`, after a check that its host has an address.

    Raises:
        CommandError: it is something else, or the host cannot be resolved.
    """
    try:
        hosts = parse_connect_string(text)
    except ValueError as error:
        raise CommandError(f"--join {text}: {error}", EXIT_USAGE) from None
    if len(hosts.hosts) != 1 or hosts.chroot:
        raise CommandError(f"--join must be one HOST:PORT, got {text}", EXIT_USAGE)
    host = hosts.hosts[0]
    resolve(host.name, "--join")
    return f"[{host.name}]:{host.port}" if ":" in host.name else f"{host.name}:{host.port}"


def resolve(host: str, option: str) -> None:
    """Check that `host` has an address.

    Raises:
        CommandError: it has none.
    """
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(
            f"{option}: host {host} cannot be resolved: {reason.lower()}; correct the name, or use "
            "an address"
        ) from None


def own_address(coordinator: str) -> str:
    """Return the address of this machine from which packets go to the coordinator.

    Raises:
        CommandError: there is no way to the coordinator.
    """
    [host] = parse_connect_string(coordinator).hosts
    try:
        family, kind, _, _, address = socket.getaddrinfo(*host, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            # Sends nothing: it only chooses the interface.
            probe.connect(address)
            found: str = probe.getsockname()[0]
            return found
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(
            f"there is no way to {coordinator}: {reason}; name this machine with --advertised-host"
        ) from None


def join(
    coordinator: str,
    directories: Sequence[Path],
    *,
    settings: Mapping[str, str],
    reserved_max_id: int,
) -> tuple[int, ...]:
    """Return the ids of the brokers with their data in `directories`; generate the missing ones.

    `settings` are the keys of the connection to the coordinator.

    Raises:
        CommandError: the coordinator cannot be used, or the data belong to another cluster.
    """
    pasts = [_past(directory) for directory in directories]
    security = _security(settings)
    return asyncio.run(_join(coordinator, pasts, security, reserved_max_id))


def _past(directory: Path) -> Past:
    path = directory / META_PROPERTIES
    try:
        found = read_meta_properties(path)
        return recall([Remembered(str(directory), found.broker_id, found.cluster_id)])
    except (StorageError, OSError) as error:
        raise CommandError(f"cannot use {path}: {error}") from None


def _security(settings: Mapping[str, str]) -> CoordinatorSecurity:
    try:
        return coordinator_security(coordinator_keys_of(settings))
    except (StartupError, ValueError) as error:
        raise CommandError(str(error), EXIT_USAGE) from None


async def _join(
    coordinator: str, pasts: Sequence[Past], security: CoordinatorSecurity, reserved_max_id: int
) -> tuple[int, ...]:
    client = Client(coordinator, has_heartbeat_thread=False, tls=security.tls, login=security.login)
    try:
        async with asyncio.timeout(JOIN_TIMEOUT_S):
            await client.connect()
            cluster_id = await _cluster_id(client)
            for past in pasts:
                check_cluster(past, cluster_id)
            return tuple([await _id_of(past, client, reserved_max_id) for past in pasts])
    except StartupError as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(_unreachable(coordinator, client.failure)) from None
    except (CoordinationError, MalformedZnodeError) as error:
        raise CommandError(_refused(coordinator, error)) from None
    finally:
        await client.close()


async def _cluster_id(client: Client) -> str:
    """Return the id of the cluster, once the first brokers have made it."""
    while True:
        try:
            data, _ = await client.get_data(paths.CLUSTER_ID)
            # Brokers make it after the id of the cluster.
            await client.get_data(paths.BROKER_SEQUENCE)
            return decode_cluster_id(data)
        except NoNodeError:
            await asyncio.sleep(RETRY_S)


async def _id_of(past: Past, client: Client, reserved_max_id: int) -> BrokerId:
    """Return the id of a broker.

    An id is lost, but never used twice, if the connection breaks, or the broker never starts.
    """
    if past.broker_id is not None:
        return past.broker_id
    stat = await client.set_data(paths.BROKER_SEQUENCE, b"")
    return generated_broker_id(stat.version, reserved_max_id)


def _unreachable(coordinator: str, failure: str | None) -> str:
    reason = failure or f"{coordinator} has no cluster yet"
    return (
        f"the cluster cannot be joined: {reason}; start `ottla up --joinable` there, or correct "
        "--join and the copied files"
    )


def _refused(coordinator: str, error: Exception) -> str:
    if isinstance(error, OperationError) and error.code in REFUSED_WITHOUT_LOGIN:
        return (
            f"{coordinator} demands a login: copy the files that `ottla up --joinable` has "
            "printed there to this machine"
        )
    return f"the cluster cannot be joined: {coordinator}: {error}"
