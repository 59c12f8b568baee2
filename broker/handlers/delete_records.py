"""DeleteRecords: raise the log start offset of a partition on all its replicas (edge).

The broker responds once, according to their fetches, no live replica holds an older record.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.handlers.delayed_partitions import DelayedPartitions
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import ITEMS_PER_TURN, RequestTasks, in_turns
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

PARTITIONS_PER_TURN: Final = 20
"""Mostly each deletes a few segments at most: half a millisecond of work."""

Awaited = dict[TopicPartition, tuple[Offset, DeleteRecordsPartitionResult]]

APIS: Final[Apis] = {
    ApiKey.DELETE_RECORDS: lambda parts: (
        DeleteRecordsHandler(parts.replicas, parts.purgatory, parts.tasks).handle
    ),
}


class DeleteRecordsHandler:
    """Deletes the oldest records; one bad partition does not fail the others."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        tasks: RequestTasks,
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._tasks = tasks

    def handle(self, request: Request, message: DeleteRecordsRequest) -> Reply:
        """Return a reply that is complete unless followers must catch up."""
        del request
        if sum(len(topic.partitions) for topic in message.topics) > PARTITIONS_PER_TURN:
            return self._tasks.run(partial(self._delete_in_turns, message))
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
        return self._respond(topics, awaited, message.timeout_ms)

    async def _delete_in_turns(self, message: DeleteRecordsRequest) -> Reply:
        awaited: Awaited = {}
        results: list[list[DeleteRecordsPartitionResult]] = [[] for _ in message.topics]
        wanted = (
            (found, topic.name, each)
            for found, topic in zip(results, message.topics, strict=True)
            for each in topic.partitions
        )
        async for found, name, each in in_turns(wanted, ITEMS_PER_TURN // PARTITIONS_PER_TURN):
            found.append(self._delete(name, each, awaited))
        topics = [
            DeleteRecordsTopicResult(name=topic.name, partitions=found)
            for topic, found in zip(message.topics, results, strict=True)
        ]
        return self._respond(topics, awaited, message.timeout_ms)

    def _respond(
        self, topics: list[DeleteRecordsTopicResult], awaited: Awaited, timeout_ms: int
    ) -> Reply:
        response = DeleteRecordsResponse(topics=topics)
        delayed = DelayedPartitions(response, awaited, self._is_followed)
        self._purgatory.hold(delayed, delayed.partitions, timeout_ms)
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
