"""The requests of a transactional producer, one at a time, with their error codes (edge)."""

from collections.abc import Callable, Sequence

from broker.transactions.transaction_effects import NO_PRODUCER, ProducerIdentity
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.transaction_admin import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafkawire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)
from tests.integration.broker.wire import Wire
from tests.waiting import until_sync

TRANSACTION = 1
RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionalClient:
    """Sends requests for one transactional id to one broker."""

    def __init__(self, wire: Wire, transactional_id: str) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        self.producer = NO_PRODUCER

    def find(self) -> ErrorCode:
        request = FindCoordinatorRequest(
            key_type=TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        response = self.wire.ask(
            ApiKey.FIND_COORDINATOR, 6, request, FindCoordinatorResponse
        ).coordinators[0]
        return ErrorCode(response.error_code)

    def initialize(
        self,
        current: ProducerIdentity = NO_PRODUCER,
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> ErrorCode:
        """Ask for an identity, and use it from then on."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )
        response = self.wire.ask(ApiKey.INIT_PRODUCER_ID, version, request, InitProducerIdResponse)
        if response.error_code == ErrorCode.NONE:
            self.producer = ProducerIdentity(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def add(self, *partitions: TopicPartition, version: int = 3) -> list[ErrorCode]:
        """Add partitions; return the code of each."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )
        response = self.wire.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN, version, request, AddPartitionsToTxnResponse
        )
        return [
            ErrorCode(each.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def add_offsets(self, group_id: str, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group_id,
        )
        response = self.wire.ask(
            ApiKey.ADD_OFFSETS_TO_TXN, version, request, AddOffsetsToTxnResponse
        )
        return ErrorCode(response.error_code)

    def end(self, *, is_commit: bool = True, version: int = 4) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=is_commit,
        )
        response = self.wire.ask(ApiKey.END_TXN, version, request, EndTxnResponse)
        return ErrorCode(response.error_code)

    def describe(self) -> DescribedTransaction:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        response = self.wire.ask(
            ApiKey.DESCRIBE_TRANSACTIONS, 0, request, DescribeTransactionsResponse
        )
        return response.transaction_states[0]

    def until_done(self, ask: Callable[[], ErrorCode | Sequence[ErrorCode]]) -> None:
        """Repeat a request while its error is retriable; it must succeed then."""

        def is_final() -> bool:
            result = ask()
            codes = [result] if isinstance(result, ErrorCode) else [*result]
            if RETRIABLE.isdisjoint(codes):
                assert set(codes) == {ErrorCode.NONE}
                return True
            return False

        until_sync(is_final, f"a final answer for {self.transactional_id}")
