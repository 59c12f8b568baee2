"""The states of a transactional producer: the legal calls, and the state after a failure."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import ErrorCode
from kafkawire.ids import ProducerId
from ottla.client.errors import (
    BrokerError,
    ConnectionLostError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
    TransactionStateError,
    broker_error,
)
from ottla.client.producer.producer_sequences import ProducerIdentity
from ottla.client.producer.transaction_state import Phase, TransactionState
from ottla.client.producer.transaction_verdict import Verdict
from tests.unit.client.client_fakes import T0, T1

LOST = ConnectionLostError("the connection was lost.")
FIRST = ProducerIdentity(ProducerId(7), 0)


def ready() -> TransactionState:
    state = TransactionState("orders")
    state.on_initialized(FIRST)
    return state


def opened() -> TransactionState:
    state = ready()
    state.begin()
    state.want([T0])
    state.on_added(state.wanted())
    return state


def committing() -> TransactionState:
    state = opened()
    state.begin_flush()
    state.begin_commit()
    return state


def aborting() -> TransactionState:
    state = opened()
    state.begin_abort()
    return state


def failed(verdict: Verdict = Verdict.ABORT) -> TransactionState:
    state = opened()
    state.on_failure(verdict, LOST)
    return state


def test_the_life_of_a_transaction() -> None:
    phases: list[Phase] = []
    state = TransactionState("orders")
    state.on_phase = lambda: phases.append(state.phase)
    state.on_initialized(FIRST)
    state.begin()
    state.begin_flush()
    state.begin_commit()
    state.on_ended()
    state.begin()
    state.begin_abort()
    state.on_ended()
    assert phases == [
        Phase.READY,
        Phase.IN_TRANSACTION,
        Phase.FLUSHING,
        Phase.COMMITTING,
        Phase.READY,
        Phase.IN_TRANSACTION,
        Phase.ABORTING,
        Phase.READY,
    ]
    assert state.number == 2


def test_partitions_are_added_once_and_sent_to_after_that() -> None:
    state = ready()
    state.begin()
    assert state.is_empty
    assert state.want([T0, T1, T0])
    assert state.wanted() == [T0, T1]
    assert not state.has_partition(T0)
    state.on_added([T0])
    assert (state.has_partition(T0), state.has_partition(T1)) == (True, False)
    assert state.want([T0]), "the other one still waits"
    state.on_added([T1])
    assert not state.want([T0, T1])
    assert not state.is_empty


def test_a_new_transaction_starts_without_partitions() -> None:
    state = committing()
    state.on_ended()
    state.begin()
    assert state.is_empty
    assert state.wanted() == []
    assert not state.must_be_ended


@pytest.mark.parametrize("make", [failed, aborting, committing, ready])
def test_partitions_are_added_only_while_batches_are_sent(
    make: Callable[[], TransactionState],
) -> None:
    state = make()
    state.want([T1])
    assert state.wanted() == []
    assert not state.is_sending


CALLS: dict[str, Callable[[TransactionState], None]] = {
    "begin": TransactionState.begin,
    "begin_flush": TransactionState.begin_flush,
    "begin_commit": TransactionState.begin_commit,
    "begin_abort": TransactionState.begin_abort,
}
ALLOWED = {
    Phase.UNINITIALIZED: set[str](),
    Phase.READY: {"begin"},
    Phase.IN_TRANSACTION: {"begin_flush", "begin_abort"},
    Phase.FLUSHING: {"begin_commit", "begin_abort"} - {"begin_abort"},
    Phase.COMMITTING: {"begin_commit"},
    Phase.ABORT_ONLY: {"begin_abort"},
    Phase.ABORTING: {"begin_abort"},
    Phase.FATAL: set[str](),
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_legal_in_few_phases(phase: Phase, call: str) -> None:
    state = opened()
    state.phase = phase
    if call in ALLOWED[phase]:
        CALLS[call](state)
        return
    with pytest.raises(TransactionStateError, match=r"orders: "):
        CALLS[call](state)
    assert state.phase is phase


def test_a_cancelled_flush_reopens_the_transaction_unless_it_has_failed() -> None:
    state = opened()
    state.begin_flush()
    state.reopen()
    assert state.accepts_records
    state.begin_flush()
    state.on_failure(Verdict.ABORT, LOST)
    state.reopen()
    assert state.phase is Phase.ABORT_ONLY


@pytest.mark.parametrize("verdict", [Verdict.ABORT, Verdict.ABORT_WITH_GAP, Verdict.FORGOTTEN])
def test_a_failed_transaction_can_only_be_aborted(verdict: Verdict) -> None:
    state = failed(verdict)
    for call in (state.begin, state.begin_flush, state.begin_commit):
        with pytest.raises(TransactionAbortableError, match="abort the transaction") as raised:
            call()
        assert raised.value.__cause__ is LOST
    assert state.is_open
    state.begin_abort()
    assert state.must_be_ended is (verdict is not Verdict.FORGOTTEN)
    state.on_ended()
    assert state.needs_epoch is (verdict is not Verdict.ABORT)


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(Verdict.FENCED, ProducerFencedError), (Verdict.FATAL, TransactionFatalError)],
)
def test_a_fatal_failure_is_final(verdict: Verdict, kind: type[TransactionError]) -> None:
    state = failed(verdict)
    for call in (state.begin, state.begin_flush, state.begin_commit, state.begin_abort):
        with pytest.raises(kind, match="close this producer"):
            call()
    later = state.on_failure(Verdict.ABORT, LOST)
    assert isinstance(later, TransactionAbortableError)
    assert state.phase is Phase.FATAL


def test_each_raised_error_is_a_new_one() -> None:
    state = failed()
    assert state.refusal("commit_transaction") is not state.refusal("commit_transaction")


def test_a_failure_between_transactions_only_asks_for_an_epoch() -> None:
    state = ready()
    state.on_failure(Verdict.ABORT_WITH_GAP, LOST)
    assert state.phase is Phase.READY
    assert state.needs_epoch
    state.on_initialized(ProducerIdentity(ProducerId(7), 1))
    # It requires that no new epoch is needed.
    state.begin()


def test_a_failure_during_an_abort_does_not_change_its_outcome() -> None:
    state = aborting()
    state.on_failure(Verdict.ABORT_WITH_GAP, LOST)
    assert state.phase is Phase.ABORTING
    state.on_ended()
    assert state.needs_epoch


@pytest.mark.parametrize("note", [TransactionState.on_unanswered, TransactionState.on_doubtful])
def test_an_uncertain_commit_may_have_happened(note: Callable[[TransactionState], None]) -> None:
    state = committing()
    assert not state.on_failure(Verdict.FENCED, LOST).may_be_committed
    state = committing()
    note(state)
    error = state.on_failure(Verdict.FENCED, LOST)
    assert error.may_be_committed
    assert "It may be committed" in str(error)
    assert state.refusal("begin_transaction").may_be_committed


def test_a_doubtful_request_needs_an_end_but_no_epoch() -> None:
    state = ready()
    state.begin()
    state.on_doubtful()
    assert state.must_be_ended
    state.begin_abort()
    state.on_ended()
    assert not state.needs_epoch
    state.begin()
    assert not state.must_be_ended


def test_an_unanswered_request_needs_an_epoch_and_an_end() -> None:
    state = ready()
    state.begin()
    state.on_unanswered()
    assert state.must_be_ended
    state.begin_abort()
    state.on_ended()
    assert state.needs_epoch


@pytest.mark.parametrize(
    ("code", "is_registered", "is_ended"),
    [
        (ErrorCode.INVALID_TXN_STATE, False, True),
        (ErrorCode.INVALID_TXN_STATE, True, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True),
        (ErrorCode.PRODUCER_FENCED, True, False),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, False),
    ],
)
def test_errors_that_end_an_abort(code: ErrorCode, is_registered: bool, is_ended: bool) -> None:
    state = aborting()
    state.is_registered = is_registered
    error = broker_error(code, "transactional id orders")
    assert isinstance(error, BrokerError)
    assert state.is_ended_by(error) is is_ended
    assert state.has_gap is (code is ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@given(
    st.lists(
        st.sampled_from(
            [*CALLS, "reopen", "on_ended", "on_unanswered", "on_initialized", *Verdict.__members__]
        ),
        max_size=40,
    )
)
def test_nothing_is_committed_after_a_failure(events: list[str]) -> None:
    """Over any order of calls and failures, a commit follows only a transaction without one."""
    state = ready()
    has_failed = False
    for event in events:
        before = state.phase
        if event in Verdict.__members__:
            if Verdict[event] is Verdict.RETRY:
                continue
            state.on_failure(Verdict[event], LOST)
            has_failed = has_failed or before in (Phase.IN_TRANSACTION, Phase.FLUSHING)
        elif event == "on_initialized":
            if before is Phase.READY:
                state.on_initialized(FIRST)
        elif event == "on_ended":
            if before in (Phase.COMMITTING, Phase.ABORTING):
                state.on_ended()
        elif event == "begin" and state.needs_epoch:
            continue
        else:
            try:
                getattr(state, event)()
            except TransactionError:
                assert state.phase is before
            if event == "begin" and before is Phase.READY:
                has_failed = False
        if before is Phase.FATAL:
            assert state.phase is Phase.FATAL
        if state.phase is Phase.COMMITTING:
            assert not has_failed
        assert state.is_sending is (state.phase in (Phase.IN_TRANSACTION, Phase.FLUSHING))
