"""The state of a transactional producer and of its current transaction (decision).

    UNINITIALIZED -> READY -> IN_TRANSACTION -> FLUSHING -> COMMITTING -> READY
                                     |                          |
                               ABORT_ONLY  -------------->  ABORTING  -> READY
    any -> FATAL

FLUSHING waits for the acknowledgements of all records, and may return to IN_TRANSACTION. In
COMMITTING and ABORTING the coordinator may have decided already, so only the same call may follow.
A producer needs a new epoch before its next transaction if a sequence number is missing in a
partition, or if a request was not answered: the coordinator refuses a late request of an old epoch.
Invariant: a batch is sent only while its partition is in the transaction, and nothing is committed
after a record or an offset of the transaction failed.

Source: TransactionManager of Kafka 3.9, KIP-98 and KIP-360.
"""

import enum
from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from ottla.client.errors import (
    BrokerError,
    OttlaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
    TransactionStateError,
)
from ottla.client.producer.producer_sequences import ProducerIdentity
from ottla.client.producer.transaction_verdict import Step, Verdict, judge

E = TypeVar("E", bound=TransactionError)


class Phase(enum.Enum):
    """The phase of a transactional producer, described for the messages of errors."""

    UNINITIALIZED = "the producer has no producer id yet"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    FLUSHING = "a commit waits for the acknowledgements of all records"
    COMMITTING = "a commit was requested, and its outcome is open: call commit_transaction() again"
    ABORT_ONLY = "the transaction has failed: abort it"
    ABORTING = "an abort is not complete: call abort_transaction() again"
    FATAL = "the producer has failed: close it"


_SENDING = {Phase.IN_TRANSACTION, Phase.FLUSHING}
_ABORTABLE = {Phase.IN_TRANSACTION, Phase.ABORT_ONLY, Phase.ABORTING}


class TransactionState:
    """The transactions of one producer; at most one of them is open."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.UNINITIALIZED
        self.number = 0
        """Number of transactions that were begun."""
        self.identity: ProducerIdentity | None = None
        self.error: TransactionError | None = None
        """The reason for ABORT_ONLY or FATAL."""
        self.has_gap = False
        """Whether a partition lacks sequence numbers of this epoch."""
        self.has_unanswered = False
        """Whether a request of this epoch was not answered, and may still arrive."""
        self.is_registered = False
        """Whether the coordinator has confirmed that the current transaction has begun."""
        self.on_phase: Callable[[], None] = _ignore
        """Callback of the owner for each change of the phase."""
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}
        self._may_be_registered = self._may_be_committed = False
        self._is_forgotten = False

    @property
    def accepts_records(self) -> bool:
        """Whether records may be added to the transaction."""
        return self.phase is Phase.IN_TRANSACTION

    @property
    def is_sending(self) -> bool:
        """Whether batches of the transaction may be sent."""
        return self.phase in _SENDING

    @property
    def is_open(self) -> bool:
        """Whether a transaction was begun that can be aborted."""
        return self.phase in _ABORTABLE

    @property
    def must_be_ended(self) -> bool:
        """Whether the coordinator has, or may have, the current transaction."""
        return not self._is_forgotten and (self.is_registered or self._may_be_registered)

    @property
    def needs_epoch(self) -> bool:
        """Whether the next transaction needs a new epoch."""
        return self.has_gap or self.has_unanswered

    # Begin and end

    def on_initialized(self, identity: ProducerIdentity) -> None:
        """Adopt producer id and epoch; the producer is ready."""
        assert self.phase in (Phase.UNINITIALIZED, Phase.READY)
        self.identity = identity
        self.on_epoch_kept()
        self._enter(Phase.READY)

    def on_epoch_kept(self) -> None:
        """Forget the wish for a new epoch."""
        self.has_gap = self.has_unanswered = False

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            TransactionError: one is open, or the producer has failed.
        """
        self.require("begin_transaction", Phase.READY)
        assert not self.needs_epoch
        self.number += 1
        self.error = None
        self.is_registered = self._may_be_registered = False
        self._may_be_committed = self._is_forgotten = False
        self._added.clear()
        self._wanted.clear()
        self._enter(Phase.IN_TRANSACTION)

    def begin_flush(self) -> None:
        """Accept no further records, since the transaction is about to be committed."""
        self.require("commit_transaction", Phase.IN_TRANSACTION)
        self._enter(Phase.FLUSHING)

    def reopen(self) -> None:
        """Accept records again: the commit was cancelled before it was requested."""
        if self.phase is Phase.FLUSHING:
            self._enter(Phase.IN_TRANSACTION)

    def begin_commit(self) -> None:
        """Let the coordinator commit; from now on the outcome is open.

        Raises:
            TransactionError: the transaction has failed.
        """
        self.require("commit_transaction", Phase.FLUSHING, Phase.COMMITTING)
        self._enter(Phase.COMMITTING)

    def begin_abort(self) -> None:
        """Send no further batches, since the transaction is about to be aborted.

        Raises:
            TransactionError: there is no transaction to abort.
        """
        self.require_not_fatal()
        if self.phase not in _ABORTABLE:
            raise self._misplaced("abort_transaction")
        self._wanted.clear()
        self._enter(Phase.ABORTING)

    def is_ended_by(self, error: BrokerError) -> bool:
        """Whether `error`, the answer to an abort, says that there is nothing to abort."""
        if error.code is ErrorCode.INVALID_TXN_STATE:
            # The request that would have begun it never arrived.
            return not self.is_registered
        is_forgotten = judge(Step.END, error) is Verdict.FORGOTTEN
        self.has_gap = self.has_gap or is_forgotten
        return is_forgotten

    def on_ended(self) -> None:
        """Record that the transaction is committed or aborted."""
        self.error = None
        self._enter(Phase.READY)

    # Partitions

    def want(self, partitions: Iterable[TopicPartition]) -> bool:
        """Note partitions to add to the transaction; return whether any waits to be added."""
        for each in partitions:
            if each not in self._added:
                self._wanted[each] = None
        return bool(self._wanted)

    def wanted(self) -> list[TopicPartition]:
        """Return the partitions to add now; none once the transaction has failed or ends."""
        return list(self._wanted) if self.is_sending else []

    def on_added(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that partitions are in the transaction."""
        self.is_registered = True
        for each in partitions:
            self._added.add(each)
            self._wanted.pop(each, None)

    def has_partition(self, partition: TopicPartition) -> bool:
        """Whether a partition is in the transaction."""
        return partition in self._added

    @property
    def is_empty(self) -> bool:
        """Whether no partition is in the transaction yet."""
        return not self._added

    # Failures

    def on_unanswered(self) -> None:
        """Record that a request was sent, or may have been, and has no answer."""
        self.has_unanswered = True
        self.on_doubtful()

    def on_doubtful(self) -> None:
        """Record that the coordinator may have carried out a request that it refused."""
        self._may_be_registered = True
        if self.phase is Phase.COMMITTING:
            self._may_be_committed = True

    def on_failure(self, verdict: Verdict, cause: OttlaError) -> TransactionError:
        """Record a failure that is not retried; return the error for the caller."""
        self.has_gap = self.has_gap or verdict.leaves_gap
        error: TransactionError
        if verdict is Verdict.FENCED:
            # Both have the same code: the cluster fences the producer when it aborts for the time.
            advice = (
                "close this producer, since another one uses its transactional id, or the "
                "transaction took longer than transaction_timeout_ms"
            )
            error = self._error(ProducerFencedError, cause, advice)
        elif verdict is Verdict.FATAL:
            error = self._error(TransactionFatalError, cause, "close this producer")
        else:
            error = self._error(TransactionAbortableError, cause, "abort the transaction")
        if self.phase is Phase.FATAL:
            return error
        if isinstance(error, TransactionFatalError):
            self.error = error
            self._enter(Phase.FATAL)
        elif self.phase in (Phase.IN_TRANSACTION, Phase.FLUSHING, Phase.COMMITTING):
            self.error = error
            self._is_forgotten = verdict is Verdict.FORGOTTEN
            self._enter(Phase.ABORT_ONLY)
        return error

    def refusal(self, method: str) -> TransactionError:
        """Return the error for a method that does not fit the phase."""
        return self._repeated() or self._misplaced(method)

    def require(self, method: str, *phases: Phase) -> None:
        """Require one of `phases` for `method`.

        Raises:
            TransactionError: the producer is in another phase.
        """
        if self.phase not in phases:
            raise self.refusal(method)

    def require_not_fatal(self) -> None:
        """Require that the producer has not failed.

        Raises:
            TransactionFatalError: it has.
        """
        if self.phase is Phase.FATAL:
            raise self.refusal("")

    # Inside

    def _repeated(self) -> TransactionError | None:
        """Return a copy of the stored error: an exception must not be raised twice."""
        if self.error is None:
            return None
        error = type(self.error)(str(self.error))
        error.may_be_committed = self.error.may_be_committed
        error.__cause__ = self.error.__cause__
        return error

    def _misplaced(self, method: str) -> TransactionStateError:
        return TransactionStateError(
            f"{method}() of transactional id {self.transactional_id}: {self.phase.value}."
        )

    def _error(self, kind: type[E], cause: OttlaError, advice: str) -> E:
        doubt = " It may be committed: no answer is certain." if self._may_be_committed else ""
        error = kind(
            f"the transaction of {self.transactional_id} failed: {cause} Remedy: {advice}.{doubt}"
        )
        error.may_be_committed = self._may_be_committed
        error.__cause__ = cause
        return error

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.on_phase()


def _ignore() -> None:
    pass
