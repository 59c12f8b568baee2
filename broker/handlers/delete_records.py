"""DeleteRecords: let a partition start at a later offset (edge)."""

from __future__ import annotations

from broker.replica_manager import ReplicaManager
from broker.reply import Reply
from broker.request_channel import Request
from kafkawire.errors import ApiError
from kafkawire.ids import TopicPartition
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNKNOWN_LOW_WATERMARK = -1


class DeleteRecordsHandler:
    """Deletes from the front; one bad partition does not fail the others."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: DeleteRecordsRequest) -> Reply:
        """Answer for every partition; the leader is the only replica, so none is waited for."""
        del request
        topics = [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[self._delete(topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in message.topics
        ]
        return Reply(DeleteRecordsResponse(topics=topics))

    def _delete(self, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        partition = TopicPartition(topic, wanted.partition_index)
        try:
            low_watermark = self._replicas.delete_records(partition, wanted.offset)
        except ApiError as error:
            return DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index,
                low_watermark=UNKNOWN_LOW_WATERMARK,
                error_code=error.code,
            )
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=low_watermark
        )
