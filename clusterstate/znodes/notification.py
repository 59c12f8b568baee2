"""Notifications to the controller: changed in-sync sets and failed log directories (decision).

They are sequential znodes that brokers create and the controller deletes.
"""

from collections.abc import Iterable
from typing import Final

from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId, TopicPartition

_LOG_DIR_FAILURE: Final = 1


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return a list of partitions, the data of two kinds of znodes.

    One is the notification of in-sync sets written by a leader, below inter-broker protocol 2.7.
    The other is the request for preferred leader elections.
    """
    listed = [{"topic": one.topic, "partition": one.partition} for one in partitions]
    return encode_json({"version": 1, "partitions": listed})


def decode_partitions(data: bytes | None) -> tuple[TopicPartition, ...]:
    """Return the partitions.

    Raises:
        MalformedZnodeError: not a list of partitions.
    """
    return tuple(
        TopicPartition(one.text("topic"), one.integer("partition"))
        for one in JsonObject.decode(data).objects("partitions")
    )


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """Return the notification that a log directory of a broker has failed."""
    return encode_json({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})


def decode_log_dir_event(data: bytes | None) -> BrokerId:
    """Return the broker whose directory failed.

    Raises:
        MalformedZnodeError: not a notification.
    """
    return BrokerId(JsonObject.decode(data).integer("broker"))
