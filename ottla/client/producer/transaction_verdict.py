"""Decides the next step of a transactional producer after an error (decision).

Source: the response handlers of TransactionManager in Kafka 3.9; `VERDICTS` is their table.
"""

import enum
from collections.abc import Iterable
from typing import Final

from kafkawire.errors import ErrorCode
from ottla.client.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    NoBrokerAvailableError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    TokenProviderError,
)


class Step(enum.Enum):
    """The kinds of requests of a transaction."""

    INITIALIZE = "InitProducerId"
    ADD = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"
    PRODUCE = "Produce"


class Verdict(enum.IntEnum):
    """The next step, in the order of severity."""

    RETRY = 0
    """Back off, look the coordinator up if it may be another broker, and send it again."""
    ABORT = 1
    """The transaction can only be aborted."""
    ABORT_WITH_GAP = 2
    """The same, and the next one needs a new epoch: sequence numbers are missing."""
    FORGOTTEN = 3
    """The same, and the coordinator no longer knows of the transaction: there is none to end."""
    FENCED = 4
    """Another producer has taken over the transactional id."""
    FATAL = 5
    """This producer cannot continue."""

    @property
    def leaves_gap(self) -> bool:
        """Whether the next transaction needs a new epoch."""
        return self in (Verdict.ABORT_WITH_GAP, Verdict.FORGOTTEN)


_FENCED: Final = {
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
}
_ABORTABLE: Final = {ErrorCode.TRANSACTION_ABORTABLE: Verdict.ABORT}
_FORGOTTEN: Final = {
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FORGOTTEN,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.FORGOTTEN,
}

VERDICTS: Final[dict[Step, dict[ErrorCode, Verdict]]] = {
    Step.INITIALIZE: _FENCED,
    Step.ADD: {
        **_FENCED,
        **_FORGOTTEN,
        ErrorCode.INVALID_TXN_STATE: Verdict.FATAL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
    },
    Step.ADD_OFFSETS: {
        **_FENCED,
        **_FORGOTTEN,
        **_ABORTABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
    },
    Step.COMMIT_OFFSETS: {
        **_FENCED,
        **_ABORTABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.ABORT,
        ErrorCode.ILLEGAL_GENERATION: Verdict.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: Verdict.ABORT,
        ErrorCode.FENCED_INSTANCE_ID: Verdict.ABORT,
        ErrorCode.REBALANCE_IN_PROGRESS: Verdict.ABORT,
        ErrorCode.OFFSET_METADATA_TOO_LARGE: Verdict.ABORT,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Verdict.ABORT,
    },
    Step.END: {**_FENCED, **_FORGOTTEN, **_ABORTABLE},
    Step.PRODUCE: {
        ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
    },
}
"""The verdict on each error code that is not retriable."""

_OTHERWISE: Final = {
    Step.INITIALIZE: Verdict.FATAL,
    Step.ADD: Verdict.ABORT,
    Step.ADD_OFFSETS: Verdict.FATAL,
    Step.COMMIT_OFFSETS: Verdict.FATAL,
    Step.END: Verdict.FATAL,
    Step.PRODUCE: Verdict.ABORT,
}

_DOUBTFUL: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""See `is_doubtful`."""


def judge(step: Step, error: OttlaError) -> Verdict:
    """Return the next step after `error`.

    A batch is judged only once it has failed for good, so its verdict is never RETRY.
    """
    if isinstance(error, BrokerError):
        verdict = VERDICTS[step].get(error.code)
        if verdict is not None:
            return verdict
    # An invalid response says nothing about the request: treat it like a lost one. The next call of
    # a token provider may succeed.
    passes = error.retriable or isinstance(error, ProtocolError | TokenProviderError)
    if step is not Step.PRODUCE and passes:
        return Verdict.RETRY
    if not isinstance(error, BrokerError) and step is not Step.PRODUCE:
        # No common version, wrong credentials: the next transaction would meet it, too.
        return Verdict.FATAL
    return _OTHERWISE[step]


def worst(step: Step, errors: Iterable[BrokerError]) -> BrokerError | None:
    """Return the error that decides the fate of a request with several partitions, if any.

    A permanent one comes before one that passes, and any before that of an untried partition.
    """

    def severity(error: BrokerError) -> tuple[bool, Verdict]:
        is_untried = error.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        return not is_untried, judge(step, error)

    return max(errors, key=severity, default=None)


def is_unanswered(error: OttlaError) -> bool:
    """Whether the request may have arrived, or may still arrive, although it failed."""
    if isinstance(error, BrokerUnreachableError | NoBrokerAvailableError):
        return False
    return isinstance(error, ConnectionLostError | RequestTimedOutError | ProtocolError)


def is_doubtful(error: OttlaError) -> bool:
    """Whether the coordinator may have carried the request out, although it refused it.

    It sends these codes, too, if it is replaced, or does not hear from its followers in time, after
    it has written the record. The record may be replicated nevertheless, and counts then.
    """
    return isinstance(error, BrokerError) and error.code in _DOUBTFUL
