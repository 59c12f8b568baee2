"""OffsetForLeaderEpoch: end offsets of epochs, so that clients detect lost records (edge)."""

from __future__ import annotations

from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError
from kafkawire.ids import TopicPartition
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

APIS: Final[Apis] = {
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda parts: (
        OffsetForLeaderEpochHandler(parts.replicas).handle
    ),
}


class OffsetForLeaderEpochHandler:
    """Looks up end offsets in the epoch history of each log."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: OffsetForLeaderEpochRequest) -> Reply:
        """Respond with a result for every partition of the request."""
        del request
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[self._find(topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in message.topics
        ]
        return Reply(OffsetForLeaderEpochResponse(topics=topics))

    def _find(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            replica = self._replicas.leader(
                TopicPartition(topic, wanted.partition), wanted.current_leader_epoch
            )
        except ApiError as error:
            return EpochEndOffset(partition=wanted.partition, error_code=error.code)
        epoch, end_offset = replica.end_offset_for_epoch(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
