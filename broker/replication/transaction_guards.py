"""Guards of a leader against transactions that nobody ends (decision).

A batch that is delayed beyond the end of its transaction would open another one, which the
coordinator does not know. Before the first batch of a transaction, the leader therefore asks the
transaction coordinator whether the partition belongs to it. A *guard* stands for the question of
one producer: it is created before the question, and dropped by any marker of the producer. So a
positive answer counts only if no transaction of the producer has ended here since. Once a guard has
a positive answer the producer may open a transaction, with a batch that no earlier one precedes.

Source: KIP-890, VerificationStateEntry of Kafka 3.9, KAFKA-14884, KAFKA-14904.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.errors import ApiError, ErrorCode
from kafkawire.records import BatchHeader
from kafkawire.sentinels import NO_SEQUENCE

MAX_GUARDS: Final = 10_000
"""Limit for one partition, some MB; the oldest guard makes room, and its batch is refused."""
_SEQUENCES: Final = 2**31
_HALF: Final = _SEQUENCES // 2


class TransactionalAppend(NamedTuple):
    """The checks of a batch that belongs to a transaction."""

    needs_guard: bool
    """Whether opening a transaction needs a guard with a positive answer."""
    has_sequence: bool = True
    """Whether sequence numbers count; in a coordinator's batches they do not."""


class Guard:
    """The question whether a partition belongs to the transaction of one producer."""

    __slots__ = ("created_ms", "is_verified", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, created_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        """Sequence of the first batch of the transaction, as far as batches have arrived."""
        self.created_ms = created_ms
        self.is_verified = False


class TransactionGuards:
    """The guards of a partition while no other broker leads it, by producer."""

    def __init__(self) -> None:
        # Oldest first.
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int
    ) -> Guard:
        """Return the guard for a batch of a producer, before the coordinator is asked.

        A guard of an older epoch of the producer is replaced; for an older epoch than the guard's,
        the returned one has no effect.
        """
        guard = self._guards.get(producer_id)
        if guard is None or guard.producer_epoch < producer_epoch:
            self._guards.pop(producer_id, None)
            if len(self._guards) >= MAX_GUARDS:
                del self._guards[next(iter(self._guards))]
            guard = self._guards[producer_id] = Guard(producer_epoch, base_sequence, now_ms)
        elif guard.producer_epoch > producer_epoch:
            return Guard(producer_epoch, base_sequence, now_ms)
        elif _precedes(base_sequence, guard.lowest_sequence):
            guard.lowest_sequence = base_sequence
        return guard

    def verify(self, producer_id: int, guard: Guard) -> None:
        """Note that the coordinator has answered yes to the question of `guard`."""
        if self._guards.get(producer_id) is guard:
            guard.is_verified = True

    def check(self, header: BatchHeader, append: TransactionalAppend) -> None:
        """Check a batch that would open a transaction.

        Raises:
            ApiError: its producer has no verified guard, or an earlier batch has not been written.
        """
        guard = self._guards.get(header.producer_id)
        if guard is None or not guard.is_verified or guard.producer_epoch != header.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"the partition is not known to be in a transaction of producer "
                f"{header.producer_id} in epoch {header.producer_epoch}",
            )
        if append.has_sequence and _precedes(guard.lowest_sequence, header.base_sequence):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sends sequence {header.base_sequence}, but "
                f"{guard.lowest_sequence} is not written yet",
            )

    def drop(self, producer_id: int) -> None:
        """Drop a producer's guard: its transaction has begun, or one has ended."""
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop guards that are `expiration_ms` old."""
        guards = self._guards
        while guards:
            oldest = next(iter(guards))
            if now_ms - guards[oldest].created_ms < expiration_ms:
                return
            del guards[oldest]


def _precedes(sequence: int, other: int) -> bool:
    """Whether `sequence` lies before `other`; sequences wrap to 0 after 2^31 - 1."""
    return (
        sequence > NO_SEQUENCE
        and other > NO_SEQUENCE
        and 0 < (other - sequence) % _SEQUENCES < _HALF
    )
