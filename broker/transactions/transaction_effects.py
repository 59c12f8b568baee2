"""Requests to a transactional id, its changes and its effects (decision).

A waiter completes the response to a request. A transaction keeps it, returns it in an effect with
the response, and never calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkawire.transaction_records import TransactionRecord


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


NO_PRODUCER = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Initializing:
    """A request of a producer for its id and a new epoch."""

    timeout_ms: int
    current: ProducerIdentity = NO_PRODUCER
    """The identity that the producer has had, from a client that continues it (KIP-360)."""
    fresh_producer_id: int | None = None
    """An unused producer id, if the request has led to its allocation."""


@dataclass(frozen=True, slots=True)
class InitResult:
    """Response to `Initializing`."""

    error: ErrorCode = ErrorCode.NONE
    producer: ProducerIdentity = NO_PRODUCER


InitWaiter: TypeAlias = Callable[[InitResult], None]
CodeWaiter: TypeAlias = Callable[[ErrorCode], None]


class ChangeKind(Enum):
    """Cause of a change."""

    INITIALIZE = "a producer has begun, or continues"
    ADD = "partitions were added"
    END = "the producer has decided"
    FENCE = "a new producer, or the timeout, aborts the transaction"
    COMPLETE = "every partition has its marker"
    EXPIRE = "the id was not used for a long time"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """A change that counts once its record is replicated. Compared by identity."""

    kind: ChangeKind
    record: TransactionRecord
    last: ProducerIdentity
    """The identity before a change of `INITIALIZE`, for a producer that repeats its request."""
    init_waiter: InitWaiter | None = None
    waiter: CodeWaiter | None = None


@dataclass(slots=True, eq=False)
class Ending:
    """The end of one transaction: its partitions without a marker. Compared by identity."""

    transactional_id: str
    is_commit: bool
    producer: ProducerIdentity
    remaining: set[TopicPartition] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Append:
    """Write the change's record, then call `Transaction.on_stored` with it."""

    change: Change
    is_retry: bool = False
    """Whether to wait before, because the write has just failed."""


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Send a marker to each remaining partition, and call `Transaction.on_marker` for each."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class AllocateProducerId:
    """Allocate a producer id, then repeat the request with it."""

    initializing: Initializing
    waiter: InitWaiter


@dataclass(frozen=True, slots=True)
class RespondToInit:
    """Send the response to an InitProducerId."""

    waiter: InitWaiter
    result: InitResult


@dataclass(frozen=True, slots=True)
class Respond:
    """Send the response to any other request."""

    waiter: CodeWaiter
    error: ErrorCode


Effect: TypeAlias = Append | SendMarkers | AllocateProducerId | RespondToInit | Respond
