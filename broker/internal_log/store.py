"""Writes to an internal topic, and reports when a write is replicated (edge).

Invariant: a write is reported as successful only while this broker has led the partition without a
break since the append. After a break its records may have been truncated and replaced by others,
and a high watermark that passes them proves nothing (KAFKA-20634). A leader that only gets a
newer epoch keeps its log, and its writes continue. If they failed with NOT_COORDINATOR, clients
that then find the same coordinator again might wait without end (librdkafka 2.x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from broker.purgatory import Purgatory
from broker.replication.replica import Replica
from broker.replication.transaction_guards import TransactionalAppend
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, EncodeError, ErrorCode
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder, Budget
from kafkawire.sentinels import ACKS_ALL, NO_EPOCH, NO_OFFSET
from storage.log.log import AppendInfo

KeyValue: TypeAlias = tuple[bytes, bytes | None]
OnStored: TypeAlias = Callable[[ErrorCode, int], None]
"""Called once, with an error of the log and the first record's offset.

NONE means in the log, with acks=all also replicated. The offset is NO_OFFSET if the records are not
in the log.
"""


class Transaction(NamedTuple):
    """The producer for which a coordinator writes records that its transaction decides."""

    producer_id: int
    producer_epoch: int
    checks: TransactionalAppend
    on_appended: Callable[[Offset], None]
    """Called with the first record's offset once the records are in the log, before `OnStored`."""


class Replicas(Protocol):
    """The replica manager, as a coordinator and its parts use it."""

    def append(
        self,
        key: tuple[str, int],
        batch: memoryview,
        acks: int,
        now_ms: int,
        budget: Budget | None = None,
        transaction: TransactionalAppend | None = None,
    ) -> AppendInfo:
        """Append to the local leader; see `ReplicaManager.append`."""

    def leader(self, key: tuple[str, int], epoch: int = NO_EPOCH) -> Replica:
        """Return the leading replica; raises as `ReplicaManager.leader`."""


class InternalStore:
    """Appends to the partitions that this broker leads."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        topic: str,
        *,
        codec: Codec,
        timeout_ms: int,
        now_ms: Callable[[], int],
        has_led_since: Callable[[int, LeaderEpoch], bool],
    ) -> None:
        """`has_led_since` says whether a partition was led without a break since an epoch."""
        self._has_led_since = has_led_since
        self._replicas = replicas
        self._purgatory = purgatory
        self._topic = topic
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms

    def append(
        self,
        partition: int,
        leader_epoch: LeaderEpoch,
        records: Iterable[KeyValue],
        on_stored: OnStored,
        transaction: Transaction | None = None,
        *,
        acks: int = ACKS_ALL,
    ) -> None:
        """Append `records` as one batch; `on_stored` may be called before this returns.

        With other `acks` than ACKS_ALL the write needs no in-sync followers, and is reported at
        once.

        Records that cannot be encoded, which an iterator may detect here, are reported like a batch
        that the log refuses.
        """
        key, now_ms = TopicPartition(self._topic, partition), self._now_ms()
        builder, checks = BatchBuilder(self._codec), None
        if transaction is not None:
            checks = transaction.checks
            builder.producer_id, builder.producer_epoch = transaction[:2]
            builder.base_sequence, builder.is_transactional = 0, True
        try:
            for each, value in records:
                builder.append(now_ms, each, value)
            batch = memoryview(builder.build())
            local = self._replicas.leader(key, leader_epoch).log
        except EncodeError:
            on_stored(ErrorCode.RECORD_LIST_TOO_LARGE, NO_OFFSET)
            return
        except ApiError as error:
            on_stored(error.code, NO_OFFSET)
            return
        base_offset = local.log_end_offset
        try:
            info = self._replicas.append(key, batch, acks, now_ms, transaction=checks)
        except ApiError as error:
            # If only the flush has failed, the next load finds the records.
            is_in_log = local.log_end_offset > base_offset
            if is_in_log and transaction is not None:
                transaction.on_appended(base_offset)
            on_stored(error.code, base_offset if is_in_log else NO_OFFSET)
            return
        if transaction is not None:
            transaction.on_appended(info.base_offset)
        if acks != ACKS_ALL:
            on_stored(ErrorCode.NONE, info.base_offset)
            return
        offsets = Offset(info.base_offset), Offset(info.last_offset)
        self._hold(key, leader_epoch, offsets, on_stored)

    def await_end(self, partition: int, leader_epoch: LeaderEpoch, on_stored: OnStored) -> None:
        """Report when everything that the log holds now is replicated, as if appended now.

        A leader may have records that the next leader lacks, until they are replicated.
        """
        key = TopicPartition(self._topic, partition)
        try:
            log_end_offset = self._replicas.leader(key, leader_epoch).log.log_end_offset
        except ApiError as error:
            on_stored(error.code, NO_OFFSET)
            return
        last = Offset(log_end_offset - 1)
        self._hold(key, leader_epoch, (last, last), on_stored)

    def _hold(
        self,
        key: TopicPartition,
        leader_epoch: LeaderEpoch,
        offsets: tuple[Offset, Offset],
        on_stored: OnStored,
    ) -> None:
        has_led = partial(self._has_led_since, key.partition, leader_epoch)
        delayed = DelayedStore(self._replicas, key, offsets, on_stored, has_led)
        self._purgatory.hold(delayed, [key], self._timeout_ms)


class DelayedStore:
    """Waits until a batch is replicated."""

    def __init__(
        self,
        replicas: Replicas,
        key: TopicPartition,
        offsets: tuple[Offset, Offset],
        on_stored: OnStored,
        has_led: Callable[[], bool],
    ) -> None:
        """Wait for the batch with these first and last `offsets`, while the broker `has_led`."""
        self._replicas = replicas
        self._key = key
        self._has_led = has_led
        self._base_offset, self._last_offset = offsets
        self._on_stored = on_stored
        # The result unless another one is known before the timeout.
        self._error = ErrorCode.REQUEST_TIMED_OUT

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether the batch is replicated, or this broker can no longer find out."""
        del changed
        try:
            leadership = self._replicas.leader(self._key).leadership
        except ApiError:
            leadership = None
        if leadership is None or not self._has_led():
            self._error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        if leadership.high_watermark <= self._last_offset:
            return False
        self._error = (
            ErrorCode.NONE if leadership.has_min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )
        return True

    def complete(self) -> None:
        """Report the result."""
        self._on_stored(self._error, self._base_offset)
