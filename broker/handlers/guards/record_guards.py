"""Guards of the APIs for records and offsets: Produce, Fetch and their relatives (edge)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from broker.handlers.fetch import FULL_FETCH_EPOCHS
from broker.handlers.guards.guard import Guard, Maker, Sieve
from broker.handlers.handler_table import Parts
from broker.handlers.partition_data import failed_partition
from broker.handlers.write_txn_markers import refused as refused_markers
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from broker.replication.fetch_session import follower_of
from kafkawire.acl import Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import validate_topic_name
from kafkawire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafkawire.messages.describe_producers import (
    DescribeProducersPartition,
    DescribeProducersResponse,
    DescribeProducersResponseTopic,
    DescribeProducersTopic,
)
from kafkawire.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.messages.transactions import WriteTxnMarkersRequest
from kafkawire.native import decode
from kafkawire.primitives import Records
from kafkawire.sentinels import ACKS_NONE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TOPIC: Final = ResourceType.TOPIC
# Constants of their own: finding the member of an enum takes 0.05 us for each request.
READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN_LOW_WATERMARK: Final = -1
MAGIC_PLACE: Final = 16
MAGIC: Final = 2
ATTRIBUTES_PLACE: Final = 22
IS_TRANSACTIONAL: Final = 0x10
CLOSED_PRODUCE: Final = "produce with acks=0 failed: the sender is not authorized"


def produce(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require WRITE on each topic, and on the transactional id of transactional batches."""

    def guarded(request: Request, message: ProduceRequest) -> Reply:
        topics = message.topic_data
        # The common case in one loop: see ADR 0073.
        for topic in topics:
            for each in topic.partition_data:
                if _is_transactional(each.records):
                    return _produce(guard, handle, request, message)
        if guard.allows_all(request, WRITE, TOPIC, [topic.name for topic in topics]):
            return handle(request, message)
        return _produce(guard, handle, request, message)

    return guarded


def _produce(guard: Guard, handle: Handler, request: Request, message: ProduceRequest) -> Reply:
    topics = message.topic_data
    if any(_is_transactional(each.records) for topic in topics for each in topic.partition_data):
        # The batch decides, not the id in the request: CVE-2018-17196.
        id_, kind = message.transactional_id, ResourceType.TRANSACTIONAL_ID
        if id_ is None or not guard.allows(request, Operation.WRITE, kind, id_):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _refuse_produce(message, _unproduced(topics, code))
    denied = {
        topic.name
        for topic in topics
        if not guard.allows(request, Operation.WRITE, TOPIC, topic.name)
    }
    if not denied:
        return handle(request, message)
    refused = _unproduced([topic for topic in topics if topic.name in denied], DENIED)
    left = [topic for topic in topics if topic.name not in denied]
    if not left:
        return _refuse_produce(message, refused)
    reply = handle(request, replace(message, topic_data=left))
    if message.acks == ACKS_NONE:
        return _then_close(reply)
    version = request.header.api_version

    def add(response: ProduceResponse | bytes) -> ProduceResponse:
        if isinstance(response, bytes):
            response = decode(ProduceResponse, response, version)
        response.responses = [*response.responses, *refused]
        return response

    return after(reply, add)


def _is_transactional(records: Records | None) -> bool:
    return (
        isinstance(records, memoryview)
        and len(records) > ATTRIBUTES_PLACE
        and records[ATTRIBUTES_PLACE] & IS_TRANSACTIONAL != 0
        and records[MAGIC_PLACE] == MAGIC
    )


def _unproduced(topics: Iterable[TopicProduceData], code: ErrorCode) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
                for each in topic.partition_data
            ],
        )
        for topic in topics
    ]


def _refuse_produce(message: ProduceRequest, refused: list[TopicProduceResponse]) -> Reply:
    if message.acks == ACKS_NONE:
        return Reply.close(CLOSED_PRODUCE)
    return Reply(ProduceResponse(responses=refused))


def _then_close(reply: Reply) -> Reply:
    """Return a reply that closes the connection once `reply` is complete."""
    if reply.is_done:
        return Reply.close(CLOSED_PRODUCE)
    closing = Reply()
    reply.on_done(partial(closing.complete_by_closing, CLOSED_PRODUCE))
    closing.on_cancel(reply.cancel)
    return closing


def fetch(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require READ on each topic of a consumer, and CLUSTER_ACTION of a follower."""

    def guarded(request: Request, message: FetchRequest) -> Reply:
        is_follower = follower_of(message) is not None
        if is_follower and guard.allows_on_cluster(request, Operation.CLUSTER_ACTION):
            return handle(request, message)
        if not is_follower and message.session_epoch not in FULL_FETCH_EPOCHS:
            return handle(request, message)
        names = _names(parts, request, message)
        asked = [] if is_follower else [name for name in names if name is not None]
        # The common case in one loop: see ADR 0073.
        if not is_follower and guard.allows_all(request, READ, TOPIC, asked):
            return handle(request, message)
        allowed = guard.sift(request, Operation.READ, TOPIC, asked)
        pairs = list(zip(names, message.topics, strict=True))
        denied = [(name, topic) for name, topic in pairs if name not in {None, *allowed}]
        if not denied and not is_follower:
            return handle(request, message)
        refused = [_unfetched(name, topic, DENIED) for name, topic in denied]
        if is_follower or not (allowed or None in names):
            unknown = [_unfetched(None, topic, UNKNOWN_ID) for name, topic in pairs if name is None]
            return Reply(FetchResponse(responses=refused + unknown))
        left = [topic for name, topic in pairs if name in {None, *allowed}]

        def add(response: FetchResponse) -> FetchResponse:
            response.responses = [*response.responses, *refused]
            return response

        return after(handle(request, replace(message, topics=left)), add)

    return guarded


def _names(parts: Parts, request: Request, message: FetchRequest) -> list[str | None]:
    """Return the name of each topic; None for an unknown id."""
    if request.header.api_version < TOPIC_IDS_SINCE:
        return [topic.topic for topic in message.topics]
    return [parts.replicas.table.topic_name(topic.topic_id) for topic in message.topics]


def _unfetched(name: str | None, topic: FetchTopic, code: ErrorCode) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=name or "",
        topic_id=topic.topic_id,
        partitions=[failed_partition(each.partition, code) for each in topic.partitions],
    )


LIST_OFFSETS: Final[Sieve[ListOffsetsTopic]] = Sieve(
    operation=Operation.DESCRIBE,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=ListOffsetsResponse,
    results="topics",
    refuse=lambda topic: ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=DENIED)
            for each in topic.partitions
        ],
    ),
)
DELETE_RECORDS: Final[Sieve[DeleteRecordsTopic]] = Sieve(
    operation=Operation.DELETE,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=DeleteRecordsResponse,
    results="topics",
    refuse=lambda topic: DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=each.partition_index,
                low_watermark=UNKNOWN_LOW_WATERMARK,
                error_code=DENIED,
            )
            for each in topic.partitions
        ],
    ),
)
DESCRIBE_PRODUCERS: Final[Sieve[DescribeProducersTopic]] = Sieve(
    operation=Operation.READ,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=DescribeProducersResponse,
    results="topics",
    refuse=lambda topic: DescribeProducersResponseTopic(
        name=topic.name,
        partitions=[
            DescribeProducersPartition(
                partition_index=index,
                error_code=(
                    DENIED
                    if validate_topic_name(topic.name) is None
                    else ErrorCode.INVALID_TOPIC_EXCEPTION
                ),
            )
            for index in topic.partition_indexes
        ],
    ),
)
EPOCHS: Final[Sieve[OffsetForLeaderTopic]] = Sieve(
    operation=Operation.DESCRIBE,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.topic,
    response=OffsetForLeaderEpochResponse,
    results="topics",
    refuse=lambda topic: OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            EpochEndOffset(partition=each.partition, error_code=DENIED) for each in topic.partitions
        ],
    ),
)


def offset_for_leader_epoch(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require CLUSTER_ACTION, or DESCRIBE on each topic."""

    def guarded(request: Request, message: OffsetForLeaderEpochRequest) -> Reply:
        if guard.allows_on_cluster(request, Operation.CLUSTER_ACTION, is_logged=False):
            return handle(request, message)
        return EPOCHS.apply(guard, request, message, handle)

    return guarded


def init_producer_id(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require WRITE on the transactional id.

    Without an id, IDEMPOTENT_WRITE on the cluster or WRITE on any topic is enough (KIP-679).
    """

    def guarded(request: Request, message: InitProducerIdRequest) -> Reply:
        id_, kind = message.transactional_id, ResourceType.TRANSACTIONAL_ID
        if id_ is not None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            is_allowed = guard.allows(request, Operation.WRITE, kind, id_)
        else:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            # Not logged as denied if a topic may be written.
            is_allowed = guard.allows_on_any(request, Operation.WRITE, TOPIC) or (
                guard.allows_on_cluster(request, Operation.IDEMPOTENT_WRITE)
            )
        if is_allowed:
            return handle(request, message)
        return Reply(
            InitProducerIdResponse(
                error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
            )
        )

    return guarded


def write_txn_markers(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require ALTER on the cluster of administrators, or CLUSTER_ACTION of brokers."""

    def guarded(request: Request, message: WriteTxnMarkersRequest) -> Reply:
        if guard.allows_on_cluster(
            request, Operation.ALTER, is_logged=False
        ) or guard.allows_on_cluster(request, Operation.CLUSTER_ACTION):
            return handle(request, message)
        return Reply(refused_markers(message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    return guarded


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: LIST_OFFSETS.make,
    ApiKey.DELETE_RECORDS: DELETE_RECORDS.make,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_PRODUCERS: DESCRIBE_PRODUCERS.make,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
}
