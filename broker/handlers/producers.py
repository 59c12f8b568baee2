"""InitProducerId and DescribeProducers (edge)."""

from __future__ import annotations

from typing import Final

from broker.cluster.producer_ids import ProducerIds
from broker.handlers.add_to_txn import known_code
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_effects import (
    NO_PRODUCER,
    Initializing,
    InitResult,
    ProducerIdentity,
)
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
from kafkawire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from storage.producers.producer_entry import ProducerEntry

FIRST_EPOCH: Final = 0
FENCED_SINCE: Final = 4
"""First version of InitProducerId whose clients know PRODUCER_FENCED."""

APIS: Final[Apis] = {
    ApiKey.INIT_PRODUCER_ID: lambda parts: (
        InitProducerIdHandler(parts.tasks, parts.producer_ids, parts.transactions).handle
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda parts: DescribeProducersHandler(parts.replicas).handle,
}


class InitProducerIdHandler:
    """Gives producers their ids and epochs; the coordinator decides on transactional ones."""

    def __init__(
        self, tasks: RequestTasks, producer_ids: ProducerIds, transactions: TransactionCoordinator
    ) -> None:
        self._tasks = tasks
        self._producer_ids = producer_ids
        self._transactions = transactions

    def handle(self, request: Request, message: InitProducerIdRequest) -> Reply:
        """Respond with a new id and epoch 0, or with the identity of a transactional producer."""
        has_id = message.producer_id != NO_PRODUCER_ID
        has_epoch = message.producer_epoch != NO_PRODUCER_EPOCH
        if has_id != has_epoch or message.transactional_id == "":
            return Reply(_response(ErrorCode.INVALID_REQUEST, NO_PRODUCER))
        if message.transactional_id is None:
            return self._tasks.run(self._allocate)
        return self._initialize(message.transactional_id, message, request.header.api_version)

    def _initialize(
        self, transactional_id: str, message: InitProducerIdRequest, version: int
    ) -> Reply:
        reply = Reply()

        def respond(result: InitResult) -> None:
            code = known_code(result.error, version, FENCED_SINCE)
            reply.complete(_response(code, result.producer))

        initializing = Initializing(
            timeout_ms=message.transaction_timeout_ms,
            current=ProducerIdentity(message.producer_id, message.producer_epoch),
        )
        self._transactions.initialize(
            transactional_id, initializing, respond, lambda: reply.cancelled
        )
        return reply

    async def _allocate(self) -> InitProducerIdResponse:
        try:
            producer_id = await self._producer_ids.allocate()
        except ApiError as error:
            return _response(error.code, NO_PRODUCER)
        return _response(ErrorCode.NONE, ProducerIdentity(producer_id, FIRST_EPOCH))


def _response(error: ErrorCode, producer: ProducerIdentity) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch
    )


class DescribeProducersHandler:
    """Describes the producers of partitions with an online replica on this broker."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: DescribeProducersRequest) -> Reply:
        """Respond with a result for each partition; a bad partition does not fail the others.

        A partition that is named repeatedly has one result, as it may have many producers.
        """
        del request
        wanted: dict[str, dict[int, None]] = {}
        for each in message.topics:
            wanted.setdefault(each.name, {}).update(dict.fromkeys(each.partition_indexes))
        topics = [
            DescribeProducersResponseTopic(
                name=name,
                partitions=[self._describe(TopicPartition(name, index)) for index in indexes],
            )
            for name, indexes in wanted.items()
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
