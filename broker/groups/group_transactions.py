"""Offsets that groups commit in transactions, and the markers that decide on them (edge).

The marker of a transaction in a partition of `__consumer_offsets` takes effect once it is
replicated, and before its coordinator gets the response: a producer that begins its next
transaction reads the offsets of the last one (KAFKA-17507).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import structlog

from broker.groups.group import Group
from broker.groups.offsets import Commits
from broker.groups.registry import GroupRegistry
from broker.groups.store_errors import commit_error
from broker.internal_log.store import InternalStore, Replicas, Transaction
from broker.purgatory import Purgatory
from broker.replication.transaction_guards import TransactionalAppend
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import offset_key, offset_value
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.records import ControlType
from storage.producers.producer_state import NewMarker

RETRY_MS = 30_000
"""Time after which an unreplicated marker is checked again, though nothing has changed."""

Appended: TypeAlias = tuple[NewMarker, Offset]
"""A marker in the log, and its offset."""

log = structlog.get_logger(__name__)


class Producer(NamedTuple):
    """A producer in a transaction, and the checks of its batch."""

    producer_id: int
    producer_epoch: int
    checks: TransactionalAppend


class GroupTransactions:
    """The open transactions with offsets of groups that this broker coordinates."""

    def __init__(
        self,
        registry: GroupRegistry,
        store: InternalStore,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
    ) -> None:
        self._registry = registry
        self._store = store
        self._replicas = replicas
        self._purgatory = purgatory
        # Groups with undecided offsets, by partition of the topic and producer.
        self._open: dict[tuple[int, int], dict[str, None]] = {}
        # Markers that were replicated while their partition was being loaded, by producer. The
        # first one decides: no offsets are appended during a load.
        self._early: dict[int, dict[int, Appended]] = {}

    def partition_of(self, group_id: str) -> TopicPartition:
        """Return the partition that a transaction must contain to commit offsets of a group.

        Raises:
            ApiError: this broker does not coordinate the group now.
        """
        self._registry.find(group_id)
        return TopicPartition(OFFSETS_TOPIC, self._registry.leaderships.partition_of(group_id))

    def commit(
        self,
        group_id: str,
        member: tuple[str, str | None, int],
        producer: Producer,
        commits: Commits,
        on_done: Callable[[ErrorCode], None],
    ) -> None:
        """Store offsets for a member (id, instance id, generation), then call `on_done`.

        They count once the transaction is committed.
        """
        try:
            group = self._registry.find(group_id)
        except ApiError as error:
            on_done(error.code)
            return
        if group is None:
            *_, generation_id = member
            if generation_id >= 0:
                on_done(ErrorCode.UNKNOWN_MEMBER_ID)
                return
            group = self._registry.find_or_add(group_id)
        code = group.check_transactional_commit(*member)
        if code is not ErrorCode.NONE or not commits:
            on_done(code)
            return
        records = (
            (offset_key(group_id, each), offset_value(committed))
            for each, committed in commits.items()
        )
        leaderships = self._registry.leaderships
        index = leaderships.partition_of(group_id)
        transaction = Transaction(
            *producer, partial(self._on_appended, group, index, producer, commits)
        )
        self._store.append(
            index,
            leaderships.epoch(index),
            records,
            partial(_on_stored, group_id, on_done),
            transaction,
        )

    def on_markers(self, partition: int, markers: Sequence[Appended]) -> None:
        """Decide on offsets once `markers`, which were appended in this turn, are replicated."""
        leaderships = self._registry.leaderships
        if partition in leaderships:
            self._await(partition, leaderships.first_epoch(partition), markers)

    def on_loaded(self, partition: int, groups: Iterable[Group]) -> None:
        """Adopt the open transactions of a partition that is active from now on."""
        for group in groups:
            for producer_id in group.offsets.undecided.producer_ids:
                self._note(partition, producer_id, group.group_id)
        for marker, offset in self._early.pop(partition, {}).values():
            self._decide(partition, marker, offset)

    def on_resign(self, partition: int) -> None:
        """Forget the transactions of a partition."""
        self._early.pop(partition, None)
        for key in [key for key in self._open if key[0] == partition]:
            del self._open[key]

    # Inside

    def _on_appended(
        self, group: Group, partition: int, producer: Producer, commits: Commits, position: Offset
    ) -> None:
        group.offsets.undecided.add(producer.producer_id, commits, position)
        self._note(partition, producer.producer_id, group.group_id)

    def _note(self, partition: int, producer_id: int, group_id: str) -> None:
        self._open.setdefault((partition, producer_id), {})[group_id] = None

    def _await(self, partition: int, first_epoch: LeaderEpoch, markers: Sequence[Appended]) -> None:
        key = TopicPartition(OFFSETS_TOPIC, partition)
        on_end = partial(self._on_end, partition, first_epoch, markers)
        self._purgatory.hold(
            DelayedMarkers(self._replicas, key, markers[-1][1], on_end), [key], RETRY_MS
        )

    def _on_end(
        self,
        partition: int,
        first_epoch: LeaderEpoch,
        markers: Sequence[Appended],
        is_replicated: bool,
    ) -> None:
        leaderships = self._registry.leaderships
        if partition not in leaderships or leaderships.first_epoch(partition) != first_epoch:
            # Unloaded since: a load reads the markers that are in the log by then.
            return
        if not is_replicated:
            self._await(partition, first_epoch, markers)
        elif leaderships.is_loading_since(partition, first_epoch):
            early = self._early.setdefault(partition, {})
            for each in markers:
                early.setdefault(each[0].producer_id, each)
        else:
            for marker, offset in markers:
                self._decide(partition, marker, offset)

    def _decide(self, partition: int, marker: NewMarker, offset: Offset) -> None:
        is_commit = marker.control_type is ControlType.COMMIT
        for group_id in self._open.pop((partition, marker.producer_id), ()):
            group = self._registry.get(group_id)
            if group is None:
                continue
            group.offsets.end_transaction(marker.producer_id, offset, is_commit=is_commit)
            if marker.producer_id in group.offsets.undecided.producer_ids:
                # Offsets of the next transaction.
                self._note(partition, marker.producer_id, group_id)


class DelayedMarkers:
    """Waits until markers are replicated, or this broker leads their partition no longer."""

    def __init__(
        self,
        replicas: Replicas,
        key: TopicPartition,
        last_offset: Offset,
        on_end: Callable[[bool], None],
    ) -> None:
        """Call `on_end` with whether the markers are replicated."""
        self._replicas = replicas
        self._key = key
        self._last_offset = last_offset
        self._on_end = on_end
        self._is_replicated = False

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether to stop waiting."""
        del changed
        try:
            replica = self._replicas.leader(self._key)
        except ApiError:
            return True
        self._is_replicated = replica.high_watermark > self._last_offset
        return self._is_replicated

    def complete(self) -> None:
        """Report the result."""
        self._on_end(self._is_replicated)


def _on_stored(
    group_id: str, on_done: Callable[[ErrorCode], None], error: ErrorCode, position: int
) -> None:
    # After a timeout the offsets stay in the log, and undecided.
    if error is not ErrorCode.NONE:
        log.info(
            "transactional_offsets.not_confirmed",
            group_id=group_id,
            position=position,
            error=error.name,
        )
    on_done(commit_error(error))
