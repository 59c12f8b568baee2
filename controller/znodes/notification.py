"""Notices to the controller: changed in-sync sets, and failed log directories (decision).

Sequential nodes that brokers create and the controller deletes.
"""

from collections.abc import Iterable
from typing import Final

from controller.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId, TopicPartition

_LOG_DIR_FAILURE: Final = 1


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the list of partitions that two kinds of nodes hold.

    They are the notice of in-sync sets that a leader changed by itself, as leaders do below an
    inter-broker protocol of 2.7, and the request for a preferred election.
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
    """Return the notice that a log directory of a broker has failed."""
    return encode_json({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})


def decode_log_dir_event(data: bytes | None) -> BrokerId:
    """Return the broker whose directory failed.

    Raises:
        MalformedZnodeError: not a notice.
    """
    return BrokerId(JsonObject.decode(data).integer("broker"))
