"""Produce: append batches, and respond once they are as durable as acks demands.

The handler is an edge: it writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from broker.handlers.appending import (
    Appending,
    Pending,
    Refused,
    TopicAccepted,
    batch_of,
    expands_too_far,
)
from broker.handlers.delayed_partitions import DelayedPartitions
from broker.handlers.handler_table import Apis, Parts
from broker.handlers.leader_hint import LEADERS_SINCE, LeaderHints
from broker.handlers.long_produce import TURN_BYTES, LongProduces
from broker.handlers.transactional_produce import TransactionalProduce
from broker.network.reply import Reply
from broker.network.request import Connection, Request
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from broker.quotas.entity import PRODUCER_BYTE_RATE
from broker.quotas.throttle import Throttle
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.native import encode_accepted
from kafkawire.plain_codecs import accepted_response
from kafkawire.records import Budget, BudgetSpentError, Codec, RecordsRejectedError, read_header
from kafkawire.sentinels import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from kafkawire.units import KIB
from storage.log.log import AppendInfo

# Older versions are advertised but refused, like in Kafka 4: many releases of librdkafka stop
# compressing if version 0 is missing (KAFKA-18659).
FIRST_SERVED_VERSION: Final = 3
# Cost of an append in addition to its batch, and the step for charges to the turn's budget.
APPEND_COST_BYTES: Final = 8 * KIB
STEP_BYTES: Final = 128 * KIB
# Limit of invalid records named in one response; later batches get only a message.
MAX_RECORD_ERRORS: Final = 1000

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.PRODUCE: lambda parts: _handler(parts).handle,
}


class ProduceHandler:
    """Appends the batches of a request; one bad partition does not fail the others."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        now_ms: Callable[[], int],
        tasks: RequestTasks,
        transactional: TransactionalProduce,
        throttle: Throttle | None = None,
        hints: LeaderHints | None = None,
    ) -> None:
        """Charge producers for their bytes by `throttle`; name new leaders by `hints`."""
        self._hints = hints
        self._transactional = transactional
        self._replicas = replicas
        self._purgatory = purgatory
        self._now_ms = now_ms
        self._throttle = throttle
        self._long = LongProduces(replicas, tasks, now_ms)
        self._running = self._long.running
        self._budget = self._long.budget

    def handle(self, request: Request, message: ProduceRequest) -> Reply:
        """Return a reply; it is pending if acks=all waits or the request takes several turns."""
        refusal = _refusal(request.header.api_version, message)
        if refusal is not None:
            response = ProduceResponse(responses=_reject_all(message, refusal))
            self._on_errors(response, request.header.api_version, request.connection)
            return _answer(response, message.acks)
        work = Appending(request, message)
        if self._running and request.connection in self._running:
            return self._long.finish(self, work)
        if message.transactional_id is not None and not self._transactional.begin(work):
            return self._long.finish(self, work)
        return self.conclude(work) if self.append(work) else self._long.finish(self, work)

    async def verify(self, work: Appending) -> None:
        """Ask the coordinator about the partitions of a transactional request, if necessary."""
        if work.transaction is None:
            self._transactional.begin(work)
        if work.unverified is not None:
            await self._transactional.verify(work)

    def append(self, work: Appending) -> bool:
        """Append at least one batch, and more within this turn's budget; return whether done.

        `work` records the refused batches, and the offsets for which acks=all waits.
        """
        # One loop, with a bare tuple as the replica's key: see benchmarks.micro.test_handlers.
        request, message = work.request, work.message
        budget = Budget(0) if work.is_spent else self._budget
        append, acks, now_ms = self._replicas.append, message.acks, self._now_ms()
        if work.transaction is not None:
            append = partial(self._append_in_transaction, work)
        is_committed, accepted = self._replicas.is_committed, work.accepted
        topics, first, spent_bytes = message.topic_data, work.partition_place, 0
        for place in range(work.topic_place, len(topics)):
            topic = topics[place]
            name, batches = topic.name, topic.partition_data
            if place == len(accepted):
                accepted.append((name, []))
            rows = accepted[place][1]
            for index in range(first, len(batches)):
                data = batches[index]
                if spent_bytes >= STEP_BYTES:
                    self._budget.left_bytes -= spent_bytes
                    spent_bytes = 0
                    if self._budget.left_bytes <= 0:
                        work.stop_at(place, index, is_large=False)
                        self._long.refill_soon()
                        return False
                key = (name, data.index)
                try:
                    batch = batch_of(request, name, data)
                    spent_bytes += APPEND_COST_BYTES + len(batch)
                    info = append(key, batch, acks, now_ms, budget)
                except ApiError as error:
                    spent_bytes += APPEND_COST_BYTES
                    work.refused.setdefault(place, []).append((data.index, error.without_origin()))
                    continue
                except BudgetSpentError as error:
                    if work.is_spent and read_header(batch).codec is not Codec.NONE:
                        work.refused.setdefault(place, []).append((data.index, expands_too_far()))
                        continue
                    # The batch waits once for a full turn, if that would be enough.
                    is_first = work.is_resumed and (place, index) == (
                        work.topic_place,
                        work.partition_place,
                    )
                    is_large = is_first or error.cost_bytes > TURN_BYTES
                    work.stop_at(place, index, is_large=is_large)
                    self._long.refill_soon()
                    return False
                base_offset, last_offset, time_ms, start_offset = info
                rows.append((data.index, base_offset, time_ms, start_offset))
                if acks == ACKS_ALL and not is_committed(key, last_offset):
                    work.pending[TopicPartition(*key)] = last_offset
            first = 0
        if self._budget.left_bytes != TURN_BYTES:
            self._long.refill_soon()
        return True

    def _append_in_transaction(
        self,
        work: Appending,
        key: tuple[str, int],
        batch: memoryview,
        acks: int,
        now_ms: int,
        budget: Budget,
    ) -> AppendInfo:
        work.check(key)
        return self._replicas.append(key, batch, acks, now_ms, budget, work.transaction)

    def conclude(self, work: Appending) -> Reply:
        """Return the reply to a request after its last batch."""
        request, message, acks = work.request, work.message, work.message.acks
        refused, pending, throttle = work.refused, work.pending, self._throttle
        throttle_ms = 0
        if throttle is not None and throttle.is_needed:
            throttle_ms = throttle.charge(request, request.size_bytes)
        if not (refused or pending or throttle_ms or acks == ACKS_NONE):
            return Reply(encode_accepted(work.accepted, request.header.api_version))
        if refused:
            _log_refused(message, refused)
        response = ProduceResponse(
            responses=_answers(work.accepted, refused), throttle_time_ms=throttle_ms
        )
        if pending:
            return self._hold(request, response, pending, message)
        if refused:
            self._on_errors(response, request.header.api_version, request.connection)
        return _answer(response, acks)

    def _hold(
        self,
        request: Request,
        response: ProduceResponse,
        pending: Pending,
        message: ProduceRequest,
    ) -> Reply:
        """Respond once all appended batches are committed, or after the timeout."""
        # Not with the request, whose body would stay in memory.
        on_complete = partial(
            self._on_errors, response, request.header.api_version, request.connection
        )
        awaited = {
            key: (pending[key], answer)
            for topic in response.responses
            for answer in topic.partition_responses
            if (key := TopicPartition(topic.name, answer.index)) in pending
        }
        delayed = DelayedPartitions(response, awaited, self._is_committed, on_complete)
        self._purgatory.hold(delayed, delayed.partitions, message.timeout_ms)
        return delayed.reply

    def _on_errors(self, response: ProduceResponse, version: int, connection: Connection) -> None:
        """Count the errors of a response, if any, and name the leaders of moved partitions."""
        traffic, is_led_elsewhere = self._replicas.table.traffic, False
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NONE:
                    traffic.on_produce_error(topic.name, answer.error_code)
                    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                        is_led_elsewhere = True
        if is_led_elsewhere and self._hints is not None and version >= LEADERS_SINCE:
            self._hints.add(response, connection.listener_name)

    def _is_committed(
        self, partition: TopicPartition, last_offset: Offset, answer: PartitionProduceResponse
    ) -> bool:
        """Return whether all in-sync replicas have the batch; set the error if too few are in sync.

        While the in-sync set is below min.insync.replicas, the high watermark does not move: the
        request waits until it recovers, or times out.
        """
        replica = self._replicas.leader(partition)
        assert replica.leadership is not None, "a leader has a leadership"
        if replica.high_watermark <= last_offset:
            return False
        if not replica.leadership.has_min_isr:
            answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True


def _refusal(version: int, message: ProduceRequest) -> ApiError | None:
    """Return the error that refuses the whole request; None if there is none."""
    if version < FIRST_SERVED_VERSION:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if message.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={message.acks} is not -1, 0 or 1")
    return None


def _reject_all(message: ProduceRequest, error: ApiError) -> list[TopicProduceResponse]:
    refused = {
        place: [(data.index, error) for data in topic.partition_data]
        for place, topic in enumerate(message.topic_data)
    }
    _log_refused(message, refused)
    return _answers([(topic.name, []) for topic in message.topic_data], refused)


def _answers(accepted: list[TopicAccepted], refused: Refused) -> list[TopicProduceResponse]:
    """Return the responses for all batches; in each topic, refused batches come last."""
    left = RecordErrorsLeft()
    return [
        TopicProduceResponse(
            name=name,
            partition_responses=[accepted_response(row) for row in rows]
            + [_rejected(error, partition, left) for partition, error in refused.get(place, ())],
        )
        for place, (name, rows) in enumerate(accepted)
    ]


class RecordErrorsLeft:
    """Number of invalid records that a response may still name."""

    def __init__(self) -> None:
        self.count = MAX_RECORD_ERRORS

    def take(self, error: ApiError) -> list[BatchIndexAndErrorMessage]:
        """Return the invalid records in `error`, up to the remaining number."""
        if not isinstance(error, RecordsRejectedError) or not self.count:
            return []
        named = error.record_errors[: self.count]
        self.count -= len(named)
        return [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in named
        ]


def _rejected(error: ApiError, partition: int, left: RecordErrorsLeft) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition,
        error_code=error.code,
        base_offset=-1,
        record_errors=left.take(error),
        error_message=error.message or error.code.text,
    )


def _log_refused(message: ProduceRequest, refused: Refused) -> None:
    """Log one line per request: the number of refused batches, their errors, and one example."""
    counts = Counter(error.code for faults in refused.values() for _, error in faults)
    if not counts:
        return
    # A topic may have no partitions.
    place, (partition, error) = next(
        (place, faults[0]) for place, faults in refused.items() if faults
    )
    log.info(
        "produce.rejected",
        partition_count=counts.total(),
        errors={code.name: count for code, count in counts.items()},
        partition=str(TopicPartition(message.topic_data[place].name, partition)),
        error=str(error),
    )


def _answer(response: ProduceResponse, acks: int) -> Reply:
    """Return the reply; with acks=0 there is no response, and a failure closes the connection."""
    if acks != ACKS_NONE:
        return Reply(response)
    found = {
        answer.error_code for topic in response.responses for answer in topic.partition_responses
    }
    errors = [code.name for code in ErrorCode if code in found and code is not ErrorCode.NONE]
    if errors:
        return Reply.close(f"produce with acks=0 failed: {', '.join(errors)}")
    return Reply.none()


def _handler(parts: Parts) -> ProduceHandler:
    # Not a lambda around this one: mypyc cannot compile such a pair.
    transactional = TransactionalProduce(
        parts.replicas,
        parts.verifier,
        is_enabled=lambda: parts.configs.verifies_transactions,
        clock_ms=parts.clock_ms,
    )
    throttle = Throttle(parts.configs.quotas, PRODUCER_BYTE_RATE, parts.clock_ms)
    hints = LeaderHints(parts.replicas.leader_of, parts.metadata)
    return ProduceHandler(
        parts.replicas, parts.purgatory, parts.now_ms, parts.tasks, transactional, throttle, hints
    )
