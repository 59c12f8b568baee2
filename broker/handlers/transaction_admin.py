"""DescribeTransactions and ListTransactions (edge)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_registry import TransactionRegistry
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.transaction_admin import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.transaction_records import TransactionStatus

STATE_NAMES: Final = frozenset(status.wire_name for status in TransactionStatus)

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_TRANSACTIONS: lambda parts: (
        TransactionAdminHandler(parts.transactions.registry, parts.now_ms).describe
    ),
    ApiKey.LIST_TRANSACTIONS: lambda parts: (
        TransactionAdminHandler(parts.transactions.registry, parts.now_ms).list_all
    ),
}


class TransactionAdminHandler:
    """Shows the transactions that this broker coordinates."""

    def __init__(self, registry: TransactionRegistry, now_ms: Callable[[], int]) -> None:
        self._registry = registry
        self._now_ms = now_ms

    def describe(self, request: Request, message: DescribeTransactionsRequest) -> Reply:
        """Respond with the state of each id, or its error."""
        del request
        states = [self._describe(each) for each in dict.fromkeys(message.transactional_ids)]
        return Reply(DescribeTransactionsResponse(transaction_states=states))

    def list_all(self, request: Request, message: ListTransactionsRequest) -> Reply:
        """Respond with the ids that match every filter, unless some are still loading."""
        del request
        leaderships = self._registry.leaderships
        code = ErrorCode.NONE
        if not leaderships.is_open:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif leaderships.is_loading:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if code is not ErrorCode.NONE:
            return Reply(ListTransactionsResponse(error_code=code))
        unknown = [each for each in message.state_filters if each not in STATE_NAMES]
        return Reply(
            ListTransactionsResponse(
                unknown_state_filters=unknown,
                transaction_states=[
                    ListedTransaction(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer.producer_id,
                        transaction_state=each.status.wire_name,
                    )
                    for each in self._matching(message)
                ],
            )
        )

    def _matching(self, message: ListTransactionsRequest) -> Iterator[Transaction]:
        producer_ids, states = set(message.producer_id_filters), set(message.state_filters)
        began_before_ms = self._now_ms() - message.duration_filter
        for each in self._registry:
            if (
                (not producer_ids or each.producer.producer_id in producer_ids)
                and (not states or each.status.wire_name in states)
                and (message.duration_filter < 0 or each.record.start_ms < began_before_ms)
            ):
                yield each

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        try:
            found = self._registry.find(transactional_id)
            if found is None:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except ApiError as error:
            return DescribedTransaction(transactional_id=transactional_id, error_code=error.code)
        record = found.record
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=record.status.wire_name,
            transaction_timeout_ms=record.timeout_ms,
            transaction_start_time_ms=record.start_ms,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            topics=_topics(found),
        )


def _topics(transaction: Transaction) -> list[DescribedTransactionTopic]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.open_partitions):
        topics.setdefault(topic, []).append(partition)
    return [
        DescribedTransactionTopic(topic=name, partitions=indexes)
        for name, indexes in topics.items()
    ]
