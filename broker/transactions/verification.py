"""Guards of partitions while a coordinator verifies their transaction (decision).

`find_unverified` comes before the question, `admit` after the answer. The log of the partition
checks the guard again in the turn of the write; see `broker.replication.transaction_guards`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from broker.replication.replica import Replica
from broker.replication.transaction_guards import Guard, TransactionGuards
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition

Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""The answer for each partition; NONE if it belongs to the transaction."""


class Asked(NamedTuple):
    """The producer of a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Leaders(Protocol):
    """The partitions that this broker leads."""

    def leader(self, key: tuple[str, int]) -> Replica:
        """Return the leading replica; raises an ApiError if another broker leads."""


class Unverified(NamedTuple):
    """The first batch of a transaction in one partition, and the guards of the partition."""

    partition: TopicPartition
    guards: TransactionGuards
    guard: Guard


def find_unverified(
    leaders: Leaders, asked: Asked, sequences: Mapping[TopicPartition, int], now_ms: int
) -> list[Unverified]:
    """Return the partitions in which the producer has no transaction open, each with a guard.

    `sequences` are of the first records for each partition. A partition that is not led here is
    left out, because the append reports it.
    """
    found = []
    for partition, base_sequence in sequences.items():
        try:
            replica = leaders.leader(partition)
        except ApiError:
            continue
        if not replica.log.producers.has_transaction(asked.producer_id, asked.producer_epoch):
            guards = replica.guards
            guard = guards.begin(asked.producer_id, asked.producer_epoch, base_sequence, now_ms)
            found.append(Unverified(partition, guards, guard))
    return found


def admit(
    leaders: Leaders, asked: Asked, unverified: Iterable[Unverified], codes: Codes
) -> dict[TopicPartition, ErrorCode]:
    """Let the producer write where its coordinator agrees; return the errors of the others."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for partition, guards, guard in unverified:
        code = codes[partition]
        if code is not ErrorCode.NONE:
            errors[partition] = code
        elif not _is_current(leaders, partition, guards):
            errors[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            guards.verify(asked.producer_id, guard)
    return errors


def _is_current(leaders: Leaders, partition: TopicPartition, guards: TransactionGuards) -> bool:
    """Whether the partition still has these guards: no other leader has written since."""
    try:
        return leaders.leader(partition).guards is guards
    except ApiError:
        return False
