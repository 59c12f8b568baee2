"""AddPartitionsToTxn and AddOffsetsToTxn: the partitions of a transaction (edge).

Producers send one transaction (up to version 3). Brokers send several (from version 4 on), mostly
to ask whether partitions are in their transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from broker.cluster.metadata_cache import ClusterImage, MetadataCache
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_effects import ProducerIdentity
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import INTERNAL_TOPICS, OFFSETS_TOPIC
from kafkawire.messages.transactions import (
    TRANSACTIONS_SINCE,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE: Final = 2
"""First version of both APIs whose clients know PRODUCER_FENCED."""

Codes = Mapping[TopicPartition, ErrorCode]

APIS: Final[Apis] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda parts: (
        AddPartitionsHandler(parts.transactions, parts.metadata).handle
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda parts: (
        AddOffsetsHandler(parts.transactions, parts.groups.registry.leaderships.partition_of).handle
    ),
}


def known_code(error: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Return `error`, or the older code for fenced producers, as the client's version knows it."""
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


class AddPartitionsHandler:
    """Adds partitions to transactions, or verifies that they are in them."""

    def __init__(self, transactions: TransactionCoordinator, metadata: MetadataCache) -> None:
        self._transactions = transactions
        self._metadata = metadata

    def handle(self, request: Request, message: AddPartitionsToTxnRequest) -> Reply:
        """Respond once every transaction has its result."""
        version = request.header.api_version
        reply = Reply()
        if version < TRANSACTIONS_SINCE:
            producer = ProducerIdentity(
                message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
            )
            topics = message.v3_and_below_topics
            refused = refusals(topics, self._metadata.image)
            if refused:
                return Reply(_of_one(topics, refused))
            asked = partitions_of(topics)

            def respond(error: ErrorCode) -> None:
                code = known_code(error, version, FENCED_SINCE)
                reply.complete(_of_one(topics, dict.fromkeys(asked, code)))

            transactional_id = message.v3_and_below_transactional_id
            self._transactions.add_partitions(
                transactional_id, producer, asked, respond, lambda: reply.cancelled
            )
            return reply
        self._handle_several(message.transactions, reply)
        return reply

    def _handle_several(
        self, transactions: Sequence[AddPartitionsToTxnTransaction], reply: Reply
    ) -> None:
        results: dict[int, Codes] = {}

        def note(number: int, codes: Codes) -> None:
            results[number] = codes
            if len(results) == len(transactions):
                reply.complete(_of_several(transactions, results))

        if not transactions:
            reply.complete(AddPartitionsToTxnResponse(results_by_transaction=[]))
        for number, each in enumerate(transactions):
            self._handle_one(each, partial(note, number), reply)

    def _handle_one(
        self,
        each: AddPartitionsToTxnTransaction,
        on_done: Callable[[Codes], None],
        reply: Reply,
    ) -> None:
        producer = ProducerIdentity(each.producer_id, each.producer_epoch)
        asked = partitions_of(each.topics)
        if each.verify_only:
            on_done(self._transactions.verify(each.transactional_id, producer, asked))
            return
        refused = refusals(each.topics, self._metadata.image, may_be_internal=True)
        if refused:
            on_done(refused)
            return
        self._transactions.add_partitions(
            each.transactional_id,
            producer,
            asked,
            lambda error: on_done(dict.fromkeys(asked, error)),
            lambda: reply.cancelled,
        )


class AddOffsetsHandler:
    """Adds the partition of a group's offsets to a transaction."""

    def __init__(
        self, transactions: TransactionCoordinator, partition_of: Callable[[str], int]
    ) -> None:
        self._transactions = transactions
        self._partition_of = partition_of

    def handle(self, request: Request, message: AddOffsetsToTxnRequest) -> Reply:
        """Respond once the partition is in the transaction."""
        reply = Reply()
        version = request.header.api_version

        def respond(error: ErrorCode) -> None:
            code = known_code(error, version, FENCED_SINCE)
            reply.complete(AddOffsetsToTxnResponse(error_code=code))

        self._transactions.add_partitions(
            message.transactional_id,
            ProducerIdentity(message.producer_id, message.producer_epoch),
            [TopicPartition(OFFSETS_TOPIC, self._partition_of(message.group_id))],
            respond,
            lambda: reply.cancelled,
        )
        return reply


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Return the partitions of a request."""
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def refusals(
    topics: Iterable[AddPartitionsToTxnTopic],
    image: ClusterImage,
    denied: Iterable[str] = (),
    *,
    may_be_internal: bool = False,
) -> Codes:
    """Return the errors of all partitions if any of them cannot be added, otherwise nothing.

    Partitions of `denied` topics, and of internal ones, are not authorized.
    """
    forbidden = set(denied) if may_be_internal else INTERNAL_TOPICS.union(denied)
    asked = partitions_of(topics)
    codes: dict[TopicPartition, ErrorCode] = {}
    for each in asked:
        if each.topic in forbidden:
            codes[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(each) is None:
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not codes:
        return {}
    return dict.fromkeys(asked, ErrorCode.OPERATION_NOT_ATTEMPTED) | codes


def refused_as_a_whole(
    request: Request, message: AddPartitionsToTxnRequest, code: ErrorCode
) -> AddPartitionsToTxnResponse:
    """Return the response that refuses every partition of a request."""
    if request.header.api_version >= TRANSACTIONS_SINCE:
        return AddPartitionsToTxnResponse(error_code=code, results_by_transaction=[])
    topics = message.v3_and_below_topics
    return _of_one(topics, dict.fromkeys(partitions_of(topics), code))


def refused_in_part(
    message: AddPartitionsToTxnRequest, image: ClusterImage, denied: Iterable[str]
) -> AddPartitionsToTxnResponse:
    """Return the response to a producer that may not write to the `denied` topics."""
    topics = message.v3_and_below_topics
    return _of_one(topics, refusals(topics, image, denied))


def _of_one(topics: Iterable[AddPartitionsToTxnTopic], codes: Codes) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(topics, codes))


def _of_several(
    transactions: Iterable[AddPartitionsToTxnTransaction], results: Mapping[int, Codes]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_topics(each.topics, results[number]),
            )
            for number, each in enumerate(transactions)
        ]
    )


def _topics(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
