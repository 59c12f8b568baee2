"""Requests of a broker to create, grow and delete topics (decision).

The broker writes the znodes; the controller finds them and does the rest. Every write is a single
transaction, refused if a znode has changed since the request was checked against it.

Source: kafka.zk.AdminZkClient of Kafka 3.9.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import (
    MAX_ATTEMPTS,
    Create,
    Delete,
    Node,
    Plan,
    Refusal,
    SetData,
    Transaction,
    list_children,
    read,
    write,
)
from clusterstate.replica_assignment import ReplicaAssignment, Replicas
from clusterstate.znodes import paths
from clusterstate.znodes.config import encode_config
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicId

REQUESTS_AT_ONCE: Final = 100
"""Deletion requests in one transaction."""

Assignments = Mapping[int, ReplicaAssignment]
Growth = Callable[[Assignments], Mapping[int, Replicas]]
"""Returns the replicas of the partitions to add to existing ones."""


class NewTopic(NamedTuple):
    """Topic to be created."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, Replicas]
    configs: Mapping[str, str]


def create_topic(topic: NewTopic) -> Plan[bool]:
    """Create the znodes of `topic` and of its configs in one transaction.

    Returns False while a topic of that name is being deleted; its deletion request is the last
    znode to be removed.

    Raises:
        ApiError: TOPIC_ALREADY_EXISTS; INVALID_TOPIC_EXCEPTION by `check_clash`; INVALID_CONFIG or
            INVALID_PARTITIONS if the data exceeds the size of a znode; REQUEST_TIMED_OUT after
            `MAX_ATTEMPTS` conflicts. Nothing has changed.
    """
    path, config_path = paths.topic(topic.name), paths.config(f"topics/{topic.name}")
    wanted = (path, config_path, paths.topic_deletion(topic.name))
    for _ in range(MAX_ATTEMPTS):
        node, config, deletion = yield from read(wanted)
        if deletion is not None:
            return False
        if node is not None:
            # It may be ours: the response to the first copy of the write may have been lost.
            if _topic_id(node.data) == topic.topic_id:
                return True
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name} exists")
        if "." in topic.name or "_" in topic.name:
            # A broker's metadata lacks the topics that were created just before.
            check_clash(topic.name, (yield from list_children(paths.TOPICS)))
        data, configs = _encode(topic), _config_ops(topic, config)
        [outcome] = yield from write([(*configs, Create(path, data))])
        if outcome.refusal is None:
            return True
        if outcome.refusal is Refusal.TOO_LARGE:
            config_bytes = len(encode_config(topic.configs))
            raise _too_large(topic.name, data, config_bytes)
    raise _conflict(topic.name)


def check_clash(name: str, others: Iterable[str]) -> None:
    """Check that no other topic's name differs only in '.' and '_': metrics confuse the two.

    Raises:
        ApiError: INVALID_TOPIC_EXCEPTION, there is such a topic.
    """
    folded = _folded(name)
    clashing = [other for other in others if other != name and _folded(other) == folded]
    if clashing:
        text = f"{name} differs from {', '.join(clashing)} only in '.' and '_'"
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _folded(name: str) -> str:
    return name.replace(".", "_")


def _topic_id(data: bytes | None) -> TopicId | None:
    """Return the id of a topic; None if its znode is malformed."""
    try:
        return decode_topic(data).topic_id
    except MalformedZnodeError:
        return None


def _encode(topic: NewTopic) -> bytes:
    assigned = {
        number: ReplicaAssignment(replicas=replicas)
        for number, replicas in topic.partitions.items()
    }
    return TopicAssignment(topic.topic_id, assigned).encode()


def _config_ops(topic: NewTopic, existing: Node | None) -> Transaction:
    """Return the operations that set the configs, replacing leftovers of a deleted topic."""
    path, data = paths.config(f"topics/{topic.name}"), encode_config(topic.configs)
    if existing is None:
        return (Create(path, data),) if topic.configs else ()
    if topic.configs:
        return (SetData(path, data, existing.version),)
    return (Delete(path, existing.version),)


def grow_topic(name: str, growth: Growth) -> Plan[int]:
    """Add partitions to a topic, and return the new partition count; `growth` may add none.

    Raises:
        ApiError: the topic does not exist, is being deleted or reassigned, or has grown too large
            for a znode; REQUEST_TIMED_OUT after `MAX_ATTEMPTS` conflicts; or raised by `growth`.
    """
    grown: TopicAssignment | None = None
    for _ in range(MAX_ATTEMPTS):
        node, deletion = yield from read((paths.topic(name), paths.topic_deletion(name)))
        if node is None:
            text = f"topic {name} does not exist"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if deletion is not None:
            text = f"topic {name} is being deleted"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        topic = decode_topic(node.data)
        if topic == grown:
            # The response to the first copy of the write was lost.
            return len(grown.partitions)
        if any(one.is_moving for one in topic.partitions.values()):
            text = f"partitions of topic {name} are being reassigned"
            raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
        added = {
            number: ReplicaAssignment(replicas=replicas)
            for number, replicas in growth(topic.partitions).items()
        }
        if not added:
            return len(topic.partitions)
        grown = TopicAssignment(topic.topic_id, {**topic.partitions, **added})
        data = grown.encode()
        [outcome] = yield from write([(SetData(paths.topic(name), data, node.version),)])
        if outcome.refusal is None:
            return len(grown.partitions)
        if outcome.refusal is Refusal.TOO_LARGE:
            raise _too_large(name, data)
    raise _conflict(name)


def _conflict(name: str) -> ApiError:
    text = f"topic {name} was changed concurrently in {MAX_ATTEMPTS} attempts"
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, text)


def _too_large(name: str, data: bytes, config_bytes: int = 0) -> ApiError:
    is_config = config_bytes > len(data)
    return ApiError(
        ErrorCode.INVALID_CONFIG if is_config else ErrorCode.INVALID_PARTITIONS,
        f"the {'configs' if is_config else 'partitions'} of topic {name} take "
        f"{max(config_bytes, len(data))} bytes, more than a znode of the coordinator can hold",
    )


def request_deletions(names: Sequence[str]) -> Plan[frozenset[str]]:
    """Request the deletion of topics, and return the names that no topic has.

    The requests are written together, so that the controller finds many of them at once. A
    repeated request has no effect.
    """
    unknown: set[str] = set()
    for start in range(0, len(names), REQUESTS_AT_ONCE):
        some = names[start : start + REQUESTS_AT_ONCE]
        nodes = yield from read([paths.topic(name) for name in some])
        known = [name for name, node in zip(some, nodes, strict=True) if node is not None]
        unknown.update(set(some) - set(known))
        requests = [Create(paths.topic_deletion(name), None) for name in known]
        outcomes = yield from write([tuple(requests)] if requests else [])
        if any(outcome.refusal is not None for outcome in outcomes):
            yield from write([(each,) for each in requests])
    return frozenset(unknown)
