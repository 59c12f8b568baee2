"""The fake cluster's transaction coordinator. Pure except for the state that it changes.

It follows Kafka's tables of states and error codes; broker 0 coordinates everything, and markers
are written at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

EMPTY, ONGOING, COMMITTED, ABORTED = "empty", "ongoing", "committed", "aborted"


@dataclass
class FakeTransaction:
    """One transactional id, and what became of its transactions."""

    producer_id: int
    epoch: int = -1
    last_epoch: int = -1
    state: str = EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    ended: list[tuple[str, tuple[TopicPartition, ...]]] = field(default_factory=list)
    committed_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    members: list[tuple[str, str, int, str | None]] = field(default_factory=list)
    """Group, member, generation and instance of each commit of offsets."""

    def initialize(self, producer_id: int, epoch: int) -> ErrorCode:
        """Give the next epoch, to a new producer or to one with this epoch."""
        if producer_id == -1 and self.state == ONGOING:
            self.epoch += 1
            self.end(ABORTED)
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if producer_id != -1 and producer_id != self.producer_id:
            return ErrorCode.PRODUCER_FENCED
        if producer_id == -1 or epoch == self.epoch:
            self.last_epoch = epoch
            self.epoch += 1
        elif epoch != self.last_epoch:
            return ErrorCode.PRODUCER_FENCED
        self.state = EMPTY
        return ErrorCode.NONE

    def check(self, producer_id: int, epoch: int) -> ErrorCode:
        """Return the error of a request under another identity."""
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if epoch == self.epoch else ErrorCode.PRODUCER_FENCED

    def request_end(self, *, is_commit: bool) -> ErrorCode:
        """Commit or abort; a repeat is a success."""
        state = COMMITTED if is_commit else ABORTED
        if self.state == ONGOING:
            self.end(state)
        return ErrorCode.NONE if self.state == state else ErrorCode.INVALID_TXN_STATE

    def end(self, state: str) -> None:
        self.ended.append((state, tuple(sorted(self.partitions))))
        if state == COMMITTED:
            self.committed_offsets.update(self.offsets)
        self.state = state
        self.partitions.clear()
        self.groups.clear()
        self.offsets.clear()


class Logs(Protocol):
    """The part of the fake logs that transactions need."""

    producer_count: int
    transactions: dict[str, FakeTransaction]
    gives_no_id: bool
    """Whether the next InitProducerId succeeds without an id, as no sound broker does."""


@dataclass
class TransactionResponder:
    """Responds for the coordinator; `refusal` is the code of a scripted fault."""

    broker_id: int
    logs: Logs
    addresses: Mapping[int, tuple[str, int]]
    refusal: ErrorCode | None

    def find_coordinator(self, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        host, port = self.addresses[0]
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=-1 if self.refusal else 0,
                    host="" if self.refusal else host,
                    port=-1 if self.refusal else port,
                    error_code=self.refusal or ErrorCode.NONE,
                    error_message=None,
                )
                for key in message.coordinator_keys
            ]
        )

    def init_producer_id(self, message: InitProducerIdRequest) -> InitProducerIdResponse:
        if self.refusal is not None:
            return InitProducerIdResponse(error_code=self.refusal, producer_epoch=-1)
        if message.transactional_id is None:
            self.logs.producer_count += 1
            return InitProducerIdResponse(producer_id=self.logs.producer_count, producer_epoch=0)
        held = self.logs.transactions.get(message.transactional_id)
        if held is None:
            self.logs.producer_count += 1
            held = FakeTransaction(self.logs.producer_count)
            self.logs.transactions[message.transactional_id] = held
        if self.logs.gives_no_id:
            self.logs.gives_no_id = False
            return InitProducerIdResponse(producer_id=-1, producer_epoch=-1)
        code = held.initialize(message.producer_id, message.producer_epoch)
        return InitProducerIdResponse(
            error_code=code, producer_id=held.producer_id, producer_epoch=held.epoch
        )

    def add_partitions(self, message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        held = self.logs.transactions[message.v3_and_below_transactional_id]
        code = self.refusal or held.check(
            message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
        )
        wanted = {
            TopicPartition(topic.name, index)
            for topic in message.v3_and_below_topics
            for index in topic.partitions
        }
        if code == ErrorCode.NONE:
            held.state = ONGOING
            held.partitions |= wanted
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=code
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in message.v3_and_below_topics
            ]
        )

    def add_offsets(self, message: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        held = self.logs.transactions[message.transactional_id]
        code = self.refusal or held.check(message.producer_id, message.producer_epoch)
        if code == ErrorCode.NONE:
            held.state = ONGOING
            held.groups.add(message.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def txn_offset_commit(self, message: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        held = self.logs.transactions[message.transactional_id]
        code = self.refusal or held.check(message.producer_id, message.producer_epoch)
        if code == ErrorCode.NONE and message.group_id not in held.groups:
            code = ErrorCode.INVALID_TXN_STATE
        if code == ErrorCode.NONE:
            member = message.member_id, message.generation_id, message.group_instance_id
            held.members.append((message.group_id, *member))
            held.offsets.update(
                (TopicPartition(topic.name, each.partition_index), each.committed_offset)
                for topic in message.topics
                for each in topic.partitions
            )
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )

    def end_txn(self, message: EndTxnRequest) -> EndTxnResponse:
        held = self.logs.transactions[message.transactional_id]
        code = self.refusal or held.check(message.producer_id, message.producer_epoch)
        if code == ErrorCode.NONE:
            code = held.request_end(is_commit=message.committed)
        return EndTxnResponse(error_code=code)
