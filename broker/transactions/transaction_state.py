"""The states of a transactional id: legal transitions, and the responses to EndTxn (decision).

Source: TransactionMetadata and TransactionCoordinator of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.transaction_records import TransactionStatus

EMPTY: Final = TransactionStatus.EMPTY
ONGOING: Final = TransactionStatus.ONGOING
PREPARE_COMMIT: Final = TransactionStatus.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionStatus.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionStatus.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionStatus.COMPLETE_ABORT

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The decision is stored, and markers are missing."""
COMPLETED: Final = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
AT_REST: Final = COMPLETED | {EMPTY}
"""No transaction is open."""

PREDECESSORS: Final[Mapping[TransactionStatus, Set[TransactionStatus]]] = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: {ONGOING},
    PREPARE_ABORT: {ONGOING},
    COMPLETE_COMMIT: {PREPARE_COMMIT},
    COMPLETE_ABORT: {PREPARE_ABORT},
}

_BUSY: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_WRONG: Final = ErrorCode.INVALID_TXN_STATE

# Response to a commit or an abort by state; None where it is carried out, NONE where it repeats an
# earlier one.
ON_COMMIT: Final[Mapping[TransactionStatus, ErrorCode | None]] = {
    ONGOING: None,
    PREPARE_COMMIT: _BUSY,
    PREPARE_ABORT: _WRONG,
    COMPLETE_COMMIT: ErrorCode.NONE,
    COMPLETE_ABORT: _WRONG,
    EMPTY: _WRONG,
}
ON_ABORT: Final[Mapping[TransactionStatus, ErrorCode | None]] = {
    ONGOING: None,
    PREPARE_COMMIT: _WRONG,
    PREPARE_ABORT: _BUSY,
    COMPLETE_COMMIT: _WRONG,
    COMPLETE_ABORT: ErrorCode.NONE,
    EMPTY: _WRONG,
}


class InvalidTransitionError(Exception):
    """A transition that the table forbids: a bug."""
