"""Registration of a broker in the cluster (decision): required znodes, ids, its own znode.

A registration left by an earlier session of the same process is replaced. A registration of any
other session means that another broker has the id, and is never touched.

Source: kafka.zk.KafkaZkClient (CheckedEphemeral, getOrGenerateClusterId, generateBrokerSequenceId);
KAFKA-7165.
"""

from collections.abc import Set
from typing import Final, NamedTuple

from clusterstate.errors import LostNodesError, MalformedZnodeError, RegistrationError
from clusterstate.plans import (
    MAX_ATTEMPTS,
    UNREADABLE_VERSION,
    Check,
    Create,
    Delete,
    Plan,
    Refusal,
    SetData,
    Transaction,
    list_children,
    read,
    write,
)
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import (
    decode_cluster_id,
    encode_cluster_id,
    generated_broker_id,
)
from clusterstate.znodes.registration import Registration, decode_registration
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId

RACES: Final = (Refusal.NODE_EXISTS, Refusal.NO_NODE, Refusal.BAD_VERSION)
"""Refusals after which the registration is read again."""


class Sessions(NamedTuple):
    """Session of this process with the coordinator, and all that it has tried to register under."""

    current: int
    own: Set[int] = frozenset()


class Registered(NamedTuple):
    """The broker is registered, with this broker epoch."""

    broker_epoch: int


class Taken(NamedTuple):
    """Another session holds the id; it may be an earlier incarnation that has not expired yet.

    `owner` is None if this broker may not read the registration, so that it may be its own.
    """

    owner: int | None


def create_top_nodes() -> Plan[None]:
    """Create the znodes that every broker expects; existing ones are kept."""
    wanted: dict[str, None] = {}
    for path in paths.PERSISTENT:
        wanted |= dict.fromkeys((*paths.parents(path), path))
    yield from write([(Create(path, None),) for path in wanted])


def cluster_id(proposed: str) -> Plan[str]:
    """Return the cluster's id; set it to `proposed` if there is none."""
    [node] = yield from read((paths.CLUSTER_ID,))
    if node is None:
        create = Create(paths.CLUSTER_ID, encode_cluster_id(proposed))
        yield from write([(Create("/cluster", None),), (create,)])
        [node] = yield from read((paths.CLUSTER_ID,))
    assert node is not None, "nobody deletes the cluster's id"
    return decode_cluster_id(node.data)


def existing_cluster_id() -> Plan[str | None]:
    """Return the cluster's id; None if there is none yet."""
    [node] = yield from read((paths.CLUSTER_ID,))
    return None if node is None else decode_cluster_id(node.data)


def login_secret(proposed: bytes) -> Plan[bytes]:
    """Return the secret that all brokers share; set it to `proposed` if there is none.

    The salts of unknown users depend on it. It protects nothing else.
    """
    [node] = yield from read((paths.LOGIN_SECRET,))
    if node is None:
        create = Create(paths.LOGIN_SECRET, proposed)
        yield from write([(Create("/cluster", None),), (create,)])
        [node] = yield from read((paths.LOGIN_SECRET,))
    assert node is not None, "nobody deletes the secret"
    # The others' secret must not be a constant that every client knows.
    return proposed if node.version == UNREADABLE_VERSION else node.data or b""


def check_endpoints(registration: Registration) -> Plan[None]:
    """Check that no other live broker advertises one of the endpoints of `registration`.

    Raises:
        ApiError: another broker does.
    """
    wanted = {(each.host, each.port) for each in registration.endpoints}
    names = yield from list_children(paths.BROKER_IDS)
    # A tool may have left a znode here whose name is not a broker id.
    ids = [int(name) for name in names if name.isdecimal()]
    others = [each for each in ids if each != registration.broker_id]
    nodes = yield from read([paths.broker(other) for other in others])
    for other, node in zip(others, nodes, strict=True):
        try:
            known = decode_registration(BrokerId(other), node.data if node else None)
        except MalformedZnodeError:
            # It was deleted meanwhile, or is malformed: then no client finds a broker there.
            continue
        taken = {(each.host, each.port) for each in known.endpoints}
        if wanted & taken:
            host, port = min(wanted & taken)
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"broker {other} advertises {host}:{port} already; configure other listeners",
            )


def generate_broker_id(reserved_max_id: int) -> Plan[BrokerId]:
    """Return an id that no other broker gets."""
    [outcome] = yield from write([(SetData(paths.BROKER_SEQUENCE, b"", -1),)])
    assert outcome.refusal is None, "the node is created before"
    return generated_broker_id(outcome.versions[0], reserved_max_id)


def register(broker_id: BrokerId, data: bytes, sessions: Sessions) -> Plan[Registered | Taken]:
    """Create the broker's node for the session `sessions.current`.

    Raises:
        LostNodesError: there is no node for the nodes of brokers.
        RegistrationError: the coordinator refuses the node.
    """
    path = paths.broker(broker_id)
    # Created empty, because only SetData returns the version that the registration has.
    creation = (Create(path, None, ephemeral=True), SetData(path, data, 0))
    change: Transaction = creation
    owner: int | None = 0
    for _ in range(MAX_ATTEMPTS):
        [outcome] = yield from write([change])
        if outcome.refusal is Refusal.NO_NODE and change is creation:
            raise LostNodesError(
                f"the coordinator has lost {paths.BROKER_IDS}: restore its data from a backup, or "
                "correct zookeeper.connect"
            )
        if outcome.refusal not in (None, *RACES):
            raise RegistrationError(
                f"the coordinator does not let this broker write {path}: correct the access "
                f"control list of {paths.BROKER_IDS}, or the broker's login"
            )
        [node] = yield from read((path,))
        if node is None:
            change = creation
            continue
        if node.version == UNREADABLE_VERSION:
            return Taken(None)
        owner = node.ephemeral_owner
        if owner == sessions.current:
            return Registered(node.czxid)
        if owner not in sessions.own:
            return Taken(owner)
        # In one transaction: nobody must see this broker missing and take it for dead.
        change = (Check(path, node.version), Delete(path, node.version), *creation)
    return Taken(owner)


def update(broker_id: BrokerId, broker_epoch: int, data: bytes) -> Plan[bool]:
    """Replace the registered endpoints, keeping the broker epoch.

    Return False if the registration with this epoch is gone, or cannot be read or written.
    """
    path = paths.broker(broker_id)
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        if node is None or node.czxid != broker_epoch:
            return False
        [outcome] = yield from write([(SetData(path, data, node.version),)])
        if outcome.refusal is not Refusal.BAD_VERSION:
            return outcome.refusal is None
    return False
