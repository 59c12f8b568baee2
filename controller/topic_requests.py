"""How a broker asks for topics to be created, grown and deleted (decision).

It writes the nodes; the controller finds them and does the rest. Every write is a single
transaction that is refused when the node is not what the request was checked against.

Source: kafka.zk.AdminZkClient of Kafka 3.9.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from controller.effects import Create, Delete, Outcome, Plan, Refusal, SetData, read, write
from controller.replica_assignment import ReplicaAssignment, Replicas
from controller.znodes import paths
from controller.znodes.config import encode_config
from controller.znodes.topic import TopicAssignment, decode_topic
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicId

MAX_ATTEMPTS: Final = 16
"""How often a topic's node is read again that others change at the same time."""

Assignments = Mapping[int, ReplicaAssignment]
Growth = Callable[[Assignments], Mapping[int, Replicas]]
"""Which replicas the partitions get that are added to these."""


class NewTopic(NamedTuple):
    """A topic as it is to be created."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, Replicas]
    configs: Mapping[str, str]


def create_topic(topic: NewTopic) -> Plan[None]:
    """Create the node of `topic`, after that of its configs, which must be there when it is found.

    Raises:
        ApiError: TOPIC_ALREADY_EXISTS; nothing has changed.
    """
    path = paths.topic(topic.name)
    [existing] = yield from read((path,))
    if existing is not None:
        raise _already_exists(topic.name)
    yield from _write_configs(topic)
    assigned = {
        number: ReplicaAssignment(replicas=replicas)
        for number, replicas in topic.partitions.items()
    }
    data = TopicAssignment(topic.topic_id, assigned).encode()
    [outcome] = yield from write([(Create(path, data),)])
    if outcome.refusal is None:
        return
    [node] = yield from read((path,))
    # Ours after all: the answer to a first copy of the write was lost.
    if node is None or decode_topic(node.data).topic_id != topic.topic_id:
        raise _already_exists(topic.name)


def grow_topic(name: str, growth: Growth) -> Plan[int]:
    """Add partitions to a topic, and return how many it has then; `growth` may add none.

    Raises:
        ApiError: it does not exist, is being deleted or moved; or what `growth` raises.
    """
    for _ in range(MAX_ATTEMPTS):
        node, deletion = yield from read((paths.topic(name), paths.topic_deletion(name)))
        if node is None:
            text = f"topic {name} does not exist"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        if deletion is not None:
            text = f"topic {name} is being deleted"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        topic = decode_topic(node.data)
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
        [outcome] = yield from write([(SetData(paths.topic(name), grown.encode(), node.version),)])
        if outcome.refusal is None:
            return len(grown.partitions)
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"topic {name} is changed by others all the time")


def ask_for_deletion(name: str) -> Plan[None]:
    """Mark a topic for deletion; one that is marked already stays so.

    Raises:
        ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    [node] = yield from read((paths.topic(name),))
    if node is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    yield from write([(Create(paths.topic_deletion(name), None),)])


def is_deletion_asked(name: str) -> Plan[bool]:
    """Return whether a topic is marked for deletion; the mark goes when the topic has gone."""
    [node] = yield from read((paths.topic_deletion(name),))
    return node is not None


def _write_configs(topic: NewTopic) -> Plan[None]:
    """Let the topic's configs be exactly these, whatever an older topic of that name has left."""
    path, data = paths.config(f"topics/{topic.name}"), encode_config(topic.configs)
    [node] = yield from read((path,))
    if topic.configs:
        first = Create(path, data) if node is None else SetData(path, data, -1)
        [outcome] = yield from write([(first,)])
        if _is_outrun(outcome):
            yield from write([(SetData(path, data, -1),)])
    elif node is not None:
        yield from write([(Delete(path),)])


def _is_outrun(outcome: Outcome) -> bool:
    return outcome.refusal is Refusal.NODE_EXISTS


def _already_exists(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
