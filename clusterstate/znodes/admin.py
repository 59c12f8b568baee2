"""`/admin/reassign_partitions`: reassignments that a tool requests (decision).

`/admin/preferred_replica_election` holds a list of partitions, see `notification`.
`/admin/delete_topics/<topic>` has no data.
"""

from collections.abc import Mapping

from clusterstate.replica_assignment import Replicas
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId, TopicPartition


def encode_reassignment(targets: Mapping[TopicPartition, Replicas]) -> bytes:
    """Return the znode's data: the target replicas of each partition."""
    listed = [
        {"topic": one.topic, "partition": one.partition, "replicas": list(replicas)}
        for one, replicas in targets.items()
    ]
    return encode_json({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, Replicas]:
    """Return the target replicas of each partition.

    Raises:
        MalformedZnodeError: not a list of reassignments.
    """
    return {
        TopicPartition(one.text("topic"), one.integer("partition")): tuple(
            BrokerId(replica) for replica in one.integers("replicas")
        )
        for one in JsonObject.decode(data).objects("partitions")
    }
