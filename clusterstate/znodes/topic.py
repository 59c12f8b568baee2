"""`/brokers/topics/<topic>`: assignment of a topic's partitions to brokers (decision).

Written in version 3; read in versions 1 to 3. During a reassignment, `partitions` holds the
replicas of both origin and target, and `adding_replicas` and `removing_replicas` the differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from clusterstate.errors import MalformedZnodeError
from clusterstate.replica_assignment import ReplicaAssignment, Replicas
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import TopicId, topic_id_from_text, topic_id_to_text

VERSION: Final = 3
Sides = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Data of a topic's znode; `topic_id` is None for a topic created before Kafka 2.8."""

    topic_id: TopicId | None
    partitions: Mapping[int, ReplicaAssignment]

    def encode(self) -> bytes:
        """Return the znode's data."""
        ordered = sorted(self.partitions.items())
        adding = {str(number): list(one.adding) for number, one in ordered if one.adding}
        removing = {str(number): list(one.removing) for number, one in ordered if one.removing}
        fields: dict[str, object] = {
            "partitions": {str(number): list(one.replicas) for number, one in ordered}
        }
        if self.topic_id is not None:
            fields["topic_id"] = topic_id_to_text(self.topic_id)
        fields |= {"adding_replicas": adding, "removing_replicas": removing, "version": VERSION}
        return encode_json(fields)


def decode_topic(data: bytes | None) -> TopicAssignment:
    """Decode the assignment of a topic.

    Raises:
        MalformedZnodeError: not an assignment.
    """
    fields = JsonObject.decode(data)
    adding, removing = (
        fields.replica_map("adding_replicas"),
        fields.replica_map("removing_replicas"),
    )
    # One object per distinct assignment: there are fewer than partitions.
    known: dict[Sides, ReplicaAssignment] = {}
    partitions: dict[int, ReplicaAssignment] = {}
    for number, replicas in fields.replica_map("partitions").items():
        sides = (replicas, adding.get(number, ()), removing.get(number, ()))
        if sides not in known:
            known[sides] = ReplicaAssignment(*cast("tuple[Replicas, Replicas, Replicas]", sides))
        partitions[number] = known[sides]
    try:
        topic_id = topic_id_from_text(fields.text("topic_id")) if fields.has("topic_id") else None
    except ValueError as error:
        raise MalformedZnodeError(str(error)) from error
    return TopicAssignment(topic_id, partitions)
