"""DeleteRecords: raise the log start offset of a partition on all its replicas (edge).

The broker responds once, according to their fetches, no live replica holds an older record.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.delayed_partitions import DelayedPartitions
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.internal_topic import INTERNAL_TOPICS
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNKNOWN_LOW_WATERMARK = -1

Awaited = dict[TopicPartition, tuple[Offset, DeleteRecordsPartitionResult]]

APIS: Final[Apis] = {
    ApiKey.DELETE_RECORDS: lambda parts: (
        DeleteRecordsHandler(parts.replicas, parts.purgatory).handle
    ),
}


class DeleteRecordsHandler:
    """Deletes the oldest records; one bad partition does not fail the others."""

    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory[TopicPartition]) -> None:
        self._replicas = replicas
        self._purgatory = purgatory

    def handle(self, request: Request, message: DeleteRecordsRequest) -> Reply:
        """Return a reply that is complete unless followers must catch up."""
        del request
        awaited: Awaited = {}
        topics = [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    self._delete(topic.name, wanted, awaited) for wanted in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        response = DeleteRecordsResponse(topics=topics)
        delayed = DelayedPartitions(response, awaited, self._is_followed)
        self._purgatory.hold(delayed, delayed.partitions, message.timeout_ms)
        return delayed.reply

    def _delete(
        self, topic: str, wanted: DeleteRecordsPartition, awaited: Awaited
    ) -> DeleteRecordsPartitionResult:
        partition = TopicPartition(topic, wanted.partition_index)
        answer = DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK
        )
        try:
            self._replicas.leader(partition)
            if topic in INTERNAL_TOPICS:
                # Under any cleanup.policy: committed offsets and transactions would be lost.
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            start_offset = self._replicas.delete_records(partition, wanted.offset)
        except ApiError as error:
            answer.error_code = error.code
        else:
            awaited[partition] = (start_offset, answer)
        return answer

    def _is_followed(
        self,
        partition: TopicPartition,
        start_offset: Offset,
        answer: DeleteRecordsPartitionResult,
    ) -> bool:
        """Whether all replicas have raised their log start offset."""
        low_watermark = self._replicas.leader(partition).low_watermark
        if low_watermark < start_offset:
            return False
        answer.low_watermark = low_watermark
        return True
