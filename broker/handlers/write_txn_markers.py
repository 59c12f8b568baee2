"""WriteTxnMarkers: end transactions in the logs that this broker leads (edge).

The coordinator of a transaction sends a marker for each of its partitions, and an administrator
ends a transaction that no coordinator knows. All markers of a partition are appended with one
write; the broker responds once the in-sync replicas have them. Markers remain: a sender that got no
response sends them again, and a marker without an open transaction changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog

from broker.handlers.delayed_partitions import DelayedPartitions
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import CloseConnection, RequestTasks
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from broker.transactions.marker_senders import MarkerSenders
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.records import ControlType
from kafkawire.sentinels import NO_OFFSET
from storage.producers.producer_state import NewMarker

MARKERS_PER_WRITE: Final = 200
"""Limit for one write to a partition: a few milliseconds of work."""
COST_PER_WRITE: Final = 5
"""Cost of a write to a partition, measured in markers."""
SHARE_OF_TIMEOUT: Final = 0.5
"""Share of a sender's time limit after which a request is answered without its late partitions.

Senders have the same limit, which begins earlier. Beyond it they repeat the whole request, although
most partitions may have their markers.
"""
IS_DONE: Final = object()
SENT_AGAIN: Final = "the sender of the markers has a later connection"
_REPLACED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})

Sent = tuple[NewMarker, WritableTxnMarkerPartitionResult]
"""A marker for one partition, and its place in the response."""

OnGroupMarkers = Callable[[int, Sequence[tuple[NewMarker, Offset]]], None]
"""Called with a partition of `__consumer_offsets`, and its new markers with their offsets."""

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.WRITE_TXN_MARKERS: lambda parts: (
        WriteTxnMarkersHandler(
            parts.replicas,
            parts.purgatory,
            parts.tasks,
            parts.groups.transactions.on_markers,
            timeout_ms=parts.config.server.request_timeout_ms,
            now_ms=parts.now_ms,
        ).handle
    ),
}


class Written:
    """The markers that were appended to a partition, and their results, which are the same."""

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        """Epoch of the first append."""
        self.last_offset = Offset(NO_OFFSET)
        self.answers: list[WritableTxnMarkerPartitionResult] = []

    @property
    def error_code(self) -> int:
        """The common error."""
        return self.answers[0].error_code

    @error_code.setter
    def error_code(self, code: int) -> None:
        """Set the error of all."""
        for each in self.answers:
            each.error_code = code


class WriteTxnMarkersHandler:
    """Writes markers; a bad marker or partition does not fail the others."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        tasks: RequestTasks,
        on_group_markers: OnGroupMarkers,
        *,
        timeout_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Wait for replication for a part of `timeout_ms`, which is the time limit of senders.

        `on_group_markers` gets the markers in partitions of `__consumer_offsets`, before the
        requests that wait for them, so that it completes before these.
        """
        self._on_group_markers = on_group_markers
        self._replicas = replicas
        self._purgatory = purgatory
        self._tasks = tasks
        self._wait_ms = int(timeout_ms * SHARE_OF_TIMEOUT)
        self._now_ms = now_ms
        self._senders = MarkerSenders()

    def handle(self, request: Request, message: WriteTxnMarkersRequest) -> Reply:
        """Write the markers of another broker, or of an administrator.

        Markers that arrive on an earlier connection than others of their sender are given up: it
        has sent them again, and a later transaction may be open.
        """
        sender = request.client_host, request.header.client_id
        number = request.connection.number
        if not self._senders.note(sender, number):
            log.info("markers.late", host=request.client_host, client_id=request.header.client_id)
            return Reply.close(SENT_AGAIN)
        return self.write(message, lambda: self._senders.is_latest(sender, number))

    def write(
        self, message: WriteTxnMarkersRequest, is_awaited: Callable[[], bool] = lambda: True
    ) -> Reply:
        """Write markers; this broker's own transaction coordinator calls this, too.

        The reply is complete once each marker is replicated, refused or has timed out. No more
        markers are written once their sender does not await them any more.
        """
        response, sent = _sorted(message)
        written: dict[TopicPartition, Written] = {}
        turns = self._append_in_turns(sent, written)

        def wait() -> Reply:
            awaited = {key: (each.last_offset, each) for key, each in written.items()}
            delayed = DelayedPartitions(response, awaited, self._is_committed)
            self._purgatory.hold(delayed, delayed.partitions, self._wait_ms)
            return delayed.reply

        if next(turns, IS_DONE) is IS_DONE:
            return wait()

        async def finish() -> Reply:
            while True:
                await asyncio.sleep(0)
                if not is_awaited():
                    raise CloseConnection(SENT_AGAIN)
                if next(turns, IS_DONE) is IS_DONE:
                    return wait()

        return self._tasks.run(finish)

    # Inside

    def _append_in_turns(
        self,
        sent: Mapping[TopicPartition, list[Sent]],
        written: dict[TopicPartition, Written],
    ) -> Iterator[None]:
        """Append all markers; yield whenever the event loop should run in between."""
        cost = 0
        for partition, markers in sent.items():
            for begin in range(0, len(markers), MARKERS_PER_WRITE):
                if cost >= MARKERS_PER_WRITE:
                    cost = 0
                    yield
                part = markers[begin : begin + MARKERS_PER_WRITE]
                cost += COST_PER_WRITE + len(part)
                self._append(partition, part, written)

    def _append(
        self,
        partition: TopicPartition,
        markers: list[Sent],
        written: dict[TopicPartition, Written],
    ) -> None:
        """Append markers to one partition; add to `written`, or note their errors."""
        try:
            epoch = self._replicas.leader(partition).leader_epoch
            results = self._replicas.append_markers(
                partition, [marker for marker, _ in markers], self._now_ms()
            )
        except ApiError as error:
            log.info("markers.not_written", partition=str(partition), error=str(error))
            for _, answer in markers:
                answer.error_code = error.code
            return
        appended: list[tuple[NewMarker, Offset]] = []
        for (marker, answer), result in zip(markers, results, strict=True):
            if isinstance(result, ApiError):
                log.info(
                    "marker.refused",
                    partition=str(partition),
                    producer_id=marker.producer_id,
                    error=str(result),
                )
                answer.error_code = result.code
            else:
                done = written.setdefault(partition, Written(epoch))
                done.answers.append(answer)
                done.last_offset = result
                appended.append((marker, result))
        if appended and partition.topic == OFFSETS_TOPIC:
            self._on_group_markers(partition.partition, appended)

    def _is_committed(
        self, partition: TopicPartition, last_offset: Offset, written: Written
    ) -> bool:
        """Whether all in-sync replicas have the markers, or this broker cannot find out."""
        try:
            leadership = self._replicas.leader(partition, written.leader_epoch).leadership
        except ApiError as error:
            # Coordinators know only one code of a leader that has been replaced.
            is_replaced = error.code in _REPLACED
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) if is_replaced else error from None
        assert leadership is not None, "a leader leads"
        if leadership.high_watermark <= last_offset:
            return False
        if not leadership.has_min_isr:
            written.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True


def refused(message: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Return the response that refuses every marker of a request."""
    response, _ = _sorted(message)
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                each.error_code = code
    return response


def _sorted(
    message: WriteTxnMarkersRequest,
) -> tuple[WriteTxnMarkersResponse, dict[TopicPartition, list[Sent]]]:
    """Return the response to fill in, and the markers of each partition."""
    sent: dict[TopicPartition, list[Sent]] = {}
    results = []
    for marker in message.markers:
        new = _new_marker(marker)
        topics = []
        for topic in marker.topics:
            answers = []
            for index in topic.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=index)
                answers.append(answer)
                if new is None:
                    answer.error_code = ErrorCode.INVALID_REQUEST
                else:
                    sent.setdefault(TopicPartition(topic.name, index), []).append((new, answer))
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
        results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results), sent


def _new_marker(marker: WritableTxnMarker) -> NewMarker | None:
    """Return the marker to append; None if no producer can have the id and the epoch."""
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return None
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    return NewMarker(marker.producer_id, marker.producer_epoch, kind, marker.coordinator_epoch)
