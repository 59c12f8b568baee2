"""Produce: append batches, and answer when they are as safe as the client asked for.

The handler is an edge: it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from broker.cluster.metadata_cache import INTERNAL_TOPICS
from broker.handlers.delayed_partitions import DelayedPartitions
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.purgatory import Purgatory
from broker.quotas.throttle import Throttle
from broker.replication.replica import ACKS_ALL
from broker.replication.replica_manager import ReplicaManager
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.produce_scanner import Accepted, encode_accepted
from kafkawire.records import RecordsRejectedError, read_header

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
# Older requests are advertised, and refused, as by Kafka 4: many releases of librdkafka stop
# compressing when version 0 is missing (KAFKA-18659).
FIRST_SERVED_VERSION: Final = 3
FIRST_VERSION_WITH_ZSTD: Final = 7
ADMIN_CLIENT_ID: Final = "__admin_client"
TRANSACTIONS_NOT_SERVED: Final = "transactions are not served yet"

log = structlog.get_logger(__name__)

Pending = dict[TopicPartition, Offset]
Refused = dict[TopicPartition, ApiError]
TopicAccepted = tuple[str, list[Accepted]]


class ProduceHandler:
    """Appends the batches of a request; one bad partition does not fail the others."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        now_ms: Callable[[], int],
        throttle: Throttle | None = None,
    ) -> None:
        """Charge senders by `throttle` for what they send."""
        self._replicas = replicas
        self._purgatory = purgatory
        self._now_ms = now_ms
        self._throttle = throttle

    def handle(self, request: Request, message: ProduceRequest) -> Reply:
        """Return a reply that is complete unless acks=all has to wait for followers."""
        version, acks = request.header.api_version, message.acks
        refusal = _refusal(version, message)
        if refusal is not None:
            return _answer(ProduceResponse(responses=_reject_all(message, refusal)), acks)
        refused: Refused = {}
        pending: Pending = {}
        accepted = self._append_all(request, message, refused, pending)
        throttle = self._throttle
        throttle_ms = 0
        if throttle is not None and throttle.is_needed:
            throttle_ms = throttle.charge(request, len(request.body))
        if not (refused or pending or throttle_ms or acks == ACKS_NONE):
            return Reply(encode_accepted(accepted, version))
        response = ProduceResponse(
            responses=_answers(accepted, refused), throttle_time_ms=throttle_ms
        )
        return self._hold(response, pending, message) if pending else _answer(response, acks)

    def _append_all(
        self, request: Request, message: ProduceRequest, refused: Refused, pending: Pending
    ) -> list[TopicAccepted]:
        """Append every batch; note what was refused, and what acks=all has to wait for."""
        # One loop, in which a bare tuple finds the replica: see benchmarks.micro.test_handlers.
        append, acks, now_ms = self._replicas.append, message.acks, self._now_ms()
        is_committed = self._replicas.is_committed
        topics: list[TopicAccepted] = []
        for topic in message.topic_data:
            name = topic.name
            rows: list[Accepted] = []
            for data in topic.partition_data:
                key = (name, data.index)
                try:
                    info = append(key, _batch(request, name, data), acks, now_ms)
                except ApiError as error:
                    refused[TopicPartition(*key)] = error.without_origin()
                    continue
                base_offset, last_offset, time_ms, start_offset = info
                rows.append((data.index, base_offset, time_ms, start_offset))
                if acks == ACKS_ALL and not is_committed(key, last_offset):
                    pending[TopicPartition(*key)] = last_offset
            topics.append((name, rows))
        return topics

    def _hold(self, response: ProduceResponse, pending: Pending, message: ProduceRequest) -> Reply:
        """Answer when all that was appended is committed, or time is over."""
        awaited = {
            key: (pending[key], answer)
            for topic in response.responses
            for answer in topic.partition_responses
            if (key := TopicPartition(topic.name, answer.index)) in pending
        }
        delayed = DelayedPartitions(response, awaited, self._is_committed)
        self._purgatory.hold(delayed, delayed.partitions, message.timeout_ms)
        return delayed.reply

    def _is_committed(
        self, partition: TopicPartition, last_offset: Offset, answer: PartitionProduceResponse
    ) -> bool:
        """Whether acks=all is fulfilled, or cannot be any more."""
        replica = self._replicas.leader(partition)
        assert replica.leadership is not None, "a leader has a leadership"
        if replica.high_watermark <= last_offset:
            return False
        if not replica.leadership.has_min_isr:
            answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True


def _refusal(version: int, message: ProduceRequest) -> ApiError | None:
    """Return why nothing of the request may be appended, None if it may."""
    if version < FIRST_SERVED_VERSION:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if message.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={message.acks} is not -1, 0 or 1")
    if message.transactional_id is not None:
        return ApiError(ErrorCode.INVALID_TXN_STATE, TRANSACTIONS_NOT_SERVED)
    return None


def _batch(request: Request, topic: str, data: PartitionProduceData) -> memoryview:
    """Return the batch of one partition, unless version or topic forbid it."""
    header = request.header
    if topic in INTERNAL_TOPICS and header.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is internal")
    batch = data.records
    if batch is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "there is no record batch")
    assert isinstance(batch, memoryview), "decoded records are views of the request"
    if header.api_version < FIRST_VERSION_WITH_ZSTD and _codec(batch) is Codec.ZSTD:
        text = f"zstd needs version {FIRST_VERSION_WITH_ZSTD} of Produce"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    return batch


def _codec(batch: memoryview) -> Codec:
    try:
        return read_header(batch).codec
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _reject_all(message: ProduceRequest, error: ApiError) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                _rejected(error, TopicPartition(topic.name, data.index))
                for data in topic.partition_data
            ],
        )
        for topic in message.topic_data
    ]


def _answers(accepted: list[TopicAccepted], refused: Refused) -> list[TopicProduceResponse]:
    """Return the answers to all batches, those that were refused last in each topic."""
    return [
        TopicProduceResponse(
            name=name,
            partition_responses=[
                PartitionProduceResponse(
                    index=partition,
                    base_offset=base_offset,
                    log_append_time_ms=time_ms,
                    log_start_offset=start_offset,
                )
                for partition, base_offset, time_ms, start_offset in rows
            ]
            + [_rejected(error, key) for key, error in refused.items() if key.topic == name],
        )
        for name, rows in accepted
    ]


def _rejected(error: ApiError, partition: TopicPartition) -> PartitionProduceResponse:
    log.info("produce.rejected", partition=str(partition), error=str(error))
    return PartitionProduceResponse(
        index=partition.partition,
        error_code=error.code,
        base_offset=-1,
        record_errors=_record_errors(error),
        error_message=error.message or error.code.text,
    )


def _record_errors(error: ApiError) -> list[BatchIndexAndErrorMessage]:
    if not isinstance(error, RecordsRejectedError):
        return []
    return [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in error.record_errors
    ]


def _answer(response: ProduceResponse, acks: int) -> Reply:
    """With acks=0 no answer is expected; only a closed connection can tell of a failure."""
    if acks != ACKS_NONE:
        return Reply(response)
    found = {
        answer.error_code for topic in response.responses for answer in topic.partition_responses
    }
    errors = [code.name for code in ErrorCode if code in found and code is not ErrorCode.NONE]
    if errors:
        return Reply.close(f"produce with acks=0 failed: {', '.join(errors)}")
    return Reply.none()
