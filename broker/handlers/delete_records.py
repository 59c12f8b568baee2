"""DeleteRecords: let a partition start at a later offset, on all its replicas (edge).

It is answered when no replica alive holds an older record, as far as their fetches tell;
`DelayedDeleteRecords` decides when that is so.
"""

from __future__ import annotations

from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

UNKNOWN_LOW_WATERMARK = -1

Awaited = dict[TopicPartition, tuple[Offset, DeleteRecordsPartitionResult]]


class DeleteRecordsHandler:
    """Deletes from the front; one bad partition does not fail the others."""

    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory[TopicPartition]) -> None:
        self._replicas = replicas
        self._purgatory = purgatory

    def handle(self, request: Request, message: DeleteRecordsRequest) -> Reply:
        """Return a reply that is complete unless followers have to follow."""
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
        delayed = DelayedDeleteRecords(response, awaited, self._replicas)
        self._purgatory.hold(delayed, list(awaited), message.timeout_ms)
        return delayed.reply

    def _delete(
        self, topic: str, wanted: DeleteRecordsPartition, awaited: Awaited
    ) -> DeleteRecordsPartitionResult:
        partition = TopicPartition(topic, wanted.partition_index)
        answer = DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK
        )
        try:
            start_offset = self._replicas.delete_records(partition, wanted.offset)
        except ApiError as error:
            answer.error_code = error.code
        else:
            awaited[partition] = (start_offset, answer)
        return answer


class DelayedDeleteRecords:
    """Waits until all replicas start where they were told. What is deleted stays deleted."""

    def __init__(
        self, response: DeleteRecordsResponse, awaited: Awaited, replicas: ReplicaManager
    ) -> None:
        """`awaited` holds, for each partition, the first offset to be left and the answer."""
        self.reply = Reply()
        self._response = response
        self._awaited = dict(awaited)
        self._replicas = replicas

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether nothing is left to wait for, looking again at what has changed."""
        for partition in [changed] if changed else list(self._awaited):
            if partition in self._awaited and self._is_decided(partition):
                del self._awaited[partition]
        return not self._awaited

    def complete(self) -> None:
        """Answer; what some replica still holds has timed out."""
        for _, answer in self._awaited.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.reply.complete(self._response)

    def _is_decided(self, partition: TopicPartition) -> bool:
        start_offset, answer = self._awaited[partition]
        try:
            low_watermark = self._replicas.leader(partition).low_watermark
        except ApiError as error:
            answer.error_code = error.code
            return True
        if low_watermark < start_offset:
            return False
        answer.low_watermark = low_watermark
        return True
