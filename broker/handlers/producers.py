"""InitProducerId, DescribeProducers and ListTransactions (edge)."""

from __future__ import annotations

from typing import Final

from broker.cluster.producer_ids import ProducerIds
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition, validate_topic_name
from kafkawire.messages.describe_producers import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseTopic,
    ProducerDescription,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from storage.producers.producer_entry import ProducerEntry

FIRST_EPOCH: Final = 0
TRANSACTION_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)

APIS: Final[Apis] = {
    ApiKey.INIT_PRODUCER_ID: lambda parts: (
        InitProducerIdHandler(parts.tasks, parts.producer_ids).handle
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda parts: DescribeProducersHandler(parts.replicas).handle,
    ApiKey.LIST_TRANSACTIONS: lambda _parts: list_transactions,
}


class InitProducerIdHandler:
    """Allocates a new id for every producer without a transactional id."""

    def __init__(self, tasks: RequestTasks, producer_ids: ProducerIds) -> None:
        self._tasks = tasks
        self._producer_ids = producer_ids

    def handle(self, request: Request, message: InitProducerIdRequest) -> Reply:
        """Respond with a new id and epoch 0; refuse transactional producers permanently."""
        del request
        if error := _refusal(message):
            return Reply(InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH))
        return self._tasks.run(self._allocate)

    async def _allocate(self) -> InitProducerIdResponse:
        try:
            producer_id = await self._producer_ids.allocate()
        except ApiError as error:
            return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_PRODUCER_EPOCH)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _refusal(message: InitProducerIdRequest) -> ErrorCode | None:
    has_id = message.producer_id != NO_PRODUCER_ID
    has_epoch = message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch or message.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if message.transactional_id is not None:
        # The code used by FindCoordinator: no client retries it.
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


class DescribeProducersHandler:
    """Describes the producers of partitions with an online replica on this broker."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: DescribeProducersRequest) -> Reply:
        """Respond with a result for each partition; a bad partition does not fail the others."""
        del request
        topics = [
            DescribeProducersResponseTopic(
                name=topic.name,
                partitions=[
                    self._describe(TopicPartition(topic.name, index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics
        ]
        return Reply(DescribeProducersResponse(topics=topics))

    def _describe(self, partition: TopicPartition) -> DescribeProducersPartition:
        index = partition.partition
        try:
            if validate_topic_name(partition.topic) is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            log = self._replicas.table.replica(partition).log
        except ApiError as error:
            text = error.message or error.code.text
            return DescribeProducersPartition(
                partition_index=index, error_code=error.code, error_message=text
            )
        return DescribeProducersPartition(
            partition_index=index, active_producers=[_description(each) for each in log.producers]
        )


def _description(entry: ProducerEntry) -> ProducerDescription:
    last = entry.last_batch
    return ProducerDescription(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=last.last_sequence if last else -1,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )


def list_transactions(request: Request, message: ListTransactionsRequest) -> Reply:
    """Respond with an empty list, and with the unknown states among the filters."""
    del request
    unknown = [each for each in message.state_filters if each not in TRANSACTION_STATES]
    return Reply(ListTransactionsResponse(unknown_state_filters=unknown))
