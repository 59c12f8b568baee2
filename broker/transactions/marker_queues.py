"""The markers to send, by broker (decision).

A marker ends a transaction in one partition; its leader writes it. Each broker has one request in
flight, and the next one takes the markers that are queued meanwhile. The leader is looked up when a
marker is queued, and again after each failure. Markers without a known leader wait apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker.transactions.transaction_effects import Ending
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition, by_topic
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)

MAX_MARKERS_PER_REQUEST: Final = 2_000
"""Limit for one request, in pairs of a transaction and a partition: some 100 kB."""


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """The markers of one ending, from one leadership of a coordinator. Compared by identity."""

    ending: Ending
    coordinator_partition: int
    coordinator_epoch: int


class Place(Enum):
    """Where a marker goes that no broker can get now."""

    UNKNOWN = "the partition is in no metadata"
    LEADERLESS = "the partition has no leader that is alive"


class Outcome(Enum):
    """Result of one marker."""

    DONE = "the partition has it, or needs none"
    AGAIN = "another leader, or the same one later"
    SUPERSEDED = "a newer coordinator or producer ends the transaction"
    REFUSED = "an error that nobody foresaw"


_OUTCOMES: Final = {
    ErrorCode.NONE: Outcome.DONE,
    # Formats that cannot hold transactions.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Outcome.DONE,
    ErrorCode.UNSUPPORTED_VERSION: Outcome.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Outcome.AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Outcome.AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: Outcome.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS: Outcome.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Outcome.AGAIN,
    ErrorCode.KAFKA_STORAGE_ERROR: Outcome.AGAIN,
    ErrorCode.FENCED_LEADER_EPOCH: Outcome.AGAIN,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Outcome.AGAIN,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Outcome.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Outcome.AGAIN,
    ErrorCode.NOT_COORDINATOR: Outcome.AGAIN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Outcome.SUPERSEDED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Outcome.SUPERSEDED,
}

Batch = dict[Outgoing, list[TopicPartition]]
"""The markers of one request."""


class MarkerQueues:
    """Markers that wait to be sent."""

    def __init__(self, leader_of: Callable[[TopicPartition], BrokerId | Place]) -> None:
        self._leader_of = leader_of
        self._queues: dict[BrokerId, dict[Outgoing, dict[TopicPartition, None]]] = {}
        self._lost: dict[Outgoing, dict[TopicPartition, None]] = {}

    @property
    def marker_count(self) -> int:
        """Number of markers that wait for their turn."""
        queues = [*self._queues.values(), self._lost]
        return sum(len(partitions) for queue in queues for partitions in queue.values())

    @property
    def lost_count(self) -> int:
        """Number of markers without a leader to send them to."""
        return sum(len(partitions) for partitions in self._lost.values())

    def put(self, outgoing: Outgoing, partitions: Iterable[TopicPartition]) -> set[BrokerId]:
        """Queue markers; return the brokers to send to."""
        brokers = set()
        for partition in partitions:
            leader = self._leader_of(partition)
            if isinstance(leader, Place):
                self._lost.setdefault(outgoing, {})[partition] = None
            else:
                queue = self._queues.setdefault(leader, {})
                queue.setdefault(outgoing, {})[partition] = None
                brokers.add(leader)
        return brokers

    def look_up_again(self) -> set[BrokerId]:
        """Queue the markers whose leader has become known; return the brokers to send to."""
        lost, self._lost = self._lost, {}
        brokers = set()
        for outgoing, partitions in lost.items():
            brokers |= self.put(outgoing, partitions)
        return brokers

    def missing(self) -> list[tuple[Outgoing, TopicPartition]]:
        """Return the markers whose partition is in no metadata."""
        return [
            (outgoing, partition)
            for outgoing, partitions in self._lost.items()
            for partition in partitions
            if self._leader_of(partition) is Place.UNKNOWN
        ]

    def forget(self, outgoing: Outgoing, partition: TopicPartition) -> None:
        """Drop a marker that waits for a leader."""
        partitions = self._lost.get(outgoing, {})
        partitions.pop(partition, None)
        if not partitions:
            self._lost.pop(outgoing, None)

    def take(self, broker_id: BrokerId) -> Batch:
        """Remove and return the markers for a broker's next request.

        A response names a marker by its producer id, so a request has one ending of each.
        """
        queue = self._queues.pop(broker_id, {})
        batch: Batch = {}
        left: dict[Outgoing, dict[TopicPartition, None]] = {}
        producer_ids: set[int] = set()
        room = MAX_MARKERS_PER_REQUEST
        for outgoing, partitions in queue.items():
            producer_id = outgoing.ending.producer.producer_id
            taken = [] if producer_id in producer_ids else list(partitions)[:room]
            if taken:
                batch[outgoing] = taken
                producer_ids.add(producer_id)
                room -= len(taken)
            if len(taken) < len(partitions):
                left[outgoing] = dict.fromkeys(list(partitions)[len(taken) :])
        if left:
            self._queues[broker_id] = left
        return batch

    def drop(self, is_dropped: Callable[[Outgoing], bool]) -> None:
        """Drop the markers of some endings."""
        for queue in (*self._queues.values(), self._lost):
            for outgoing in [each for each in queue if is_dropped(each)]:
                del queue[outgoing]


def markers_of(batch: Batch) -> list[WritableTxnMarker]:
    """Return the markers of a request."""
    return [_marker(outgoing, partitions) for outgoing, partitions in batch.items()]


def outcomes_of(
    batch: Batch, response: WriteTxnMarkersResponse
) -> Iterator[tuple[Outgoing, TopicPartition, Outcome, int]]:
    """Yield the outcome, and the error code, of each marker of a request.

    A marker that the response leaves out is sent again.
    """
    codes = {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): each.error_code
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
    for outgoing, partitions in batch.items():
        for partition in partitions:
            code = codes.get((outgoing.ending.producer.producer_id, partition))
            if code is None:
                code = int(ErrorCode.REQUEST_TIMED_OUT)
            yield outgoing, partition, _outcome(code), code


def _outcome(code: int) -> Outcome:
    try:
        return _OUTCOMES.get(ErrorCode(code), Outcome.REFUSED)
    except ValueError:
        return Outcome.REFUSED


def _marker(outgoing: Outgoing, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    ending = outgoing.ending
    return WritableTxnMarker(
        producer_id=ending.producer.producer_id,
        producer_epoch=ending.producer.epoch,
        transaction_result=ending.is_commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ],
        coordinator_epoch=outgoing.coordinator_epoch,
    )
