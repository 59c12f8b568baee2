"""The state machine of a transactional id: `broker.transactions.transaction`."""

import pytest

from broker.transactions.transaction import LAST_EPOCH, Transaction, store_error
from broker.transactions.transaction_effects import (
    ChangeKind,
    InitResult,
    ProducerIdentity,
)
from broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREDECESSORS,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    InvalidTransitionError,
)
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.transaction_records import (
    TransactionRecord,
    TransactionStatus,
    transaction_value,
)
from tests.unit.broker.transactions.transaction_driver import PRODUCER_ID, T0, T1, Driver

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
WRONG = ErrorCode.INVALID_TXN_STATE
OK = ErrorCode.NONE
MANY = 300
AGAIN = ErrorCode.COORDINATOR_NOT_AVAILABLE
FEW = ErrorCode.NOT_ENOUGH_REPLICAS


def stored(status: TransactionStatus, epoch: int = 3) -> TransactionRecord:
    partitions = frozenset({T0, T1} if status in (ONGOING, PREPARE_ABORT, PREPARE_COMMIT) else ())
    return TransactionRecord(PRODUCER_ID, epoch, 60_000, status, partitions, 500, 400)


def begun() -> Driver:
    driver = Driver()
    assert driver.initialize() == InitResult(OK, ProducerIdentity(PRODUCER_ID, 0))
    return driver


def opened() -> Driver:
    driver = begun()
    assert driver.add(T0, T1) is OK
    return driver


def identity(epoch: int, producer_id: int = PRODUCER_ID) -> ProducerIdentity:
    return ProducerIdentity(producer_id, epoch)


# A whole transaction


@pytest.mark.parametrize(
    ("is_commit", "prepared", "completed"),
    [(True, PREPARE_COMMIT, COMPLETE_COMMIT), (False, PREPARE_ABORT, COMPLETE_ABORT)],
)
def test_transaction_ends_with_a_marker_in_each_partition(
    is_commit: bool, prepared: TransactionStatus, completed: TransactionStatus
) -> None:
    driver = begun()
    driver.now_ms = 2_000
    driver.add(T0)
    driver.now_ms = 3_000
    driver.add(T1)
    driver.now_ms = 4_000
    assert driver.end(is_commit=is_commit) is OK
    statuses = [(record.status, record.partitions, record.start_ms) for record in driver.log]
    assert statuses == [
        (EMPTY, frozenset(), -1),
        (ONGOING, {T0}, 2_000),
        (ONGOING, {T0, T1}, 2_000),
        (prepared, {T0, T1}, 2_000),
        (completed, frozenset(), 2_000),
    ]
    assert [record.last_update_ms for record in driver.log] == [1_000, 2_000, 3_000, 4_000, 4_000]
    assert driver.endings[0].is_commit is is_commit
    assert driver.transaction.ending is None


def test_decision_is_answered_once_it_is_stored_and_before_the_markers() -> None:
    driver = opened()
    driver.stores_at_once = driver.marks_at_once = False
    results: list[ErrorCode] = []
    driver.transaction.end(driver.producer, results.append, 0, is_commit=True)
    driver.settle()
    assert (results, driver.endings) == ([], [])
    driver.store()
    assert results == [OK]
    assert driver.endings[0].remaining == {T0, T1}


def test_the_next_transaction_waits_for_the_last_marker_and_its_record() -> None:
    driver = opened()
    driver.marks_at_once = False
    driver.end()
    driver.stores_at_once = False
    driver.mark([T0])
    assert driver.transaction.open_partitions == {T1}
    assert (driver.add(T0), driver.initialize()) == (BUSY, InitResult(BUSY))
    driver.mark([T1])
    assert driver.transaction.is_ending
    assert driver.add(T0) is BUSY
    driver.store()
    driver.stores_at_once = True
    assert driver.add(T0) is OK
    assert driver.transaction.open_partitions == {T0}


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_without_partitions_ends_without_markers(is_commit: bool) -> None:
    driver = begun()
    assert (driver.add(), driver.transaction.status) == (OK, ONGOING)
    assert driver.end(is_commit=is_commit) is OK
    assert driver.endings == []
    assert driver.transaction.status is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT)
    assert driver.add(T0) is OK


def test_completion_is_written_once_however_often_a_marker_is_reported() -> None:
    driver = opened()
    driver.marks_at_once = False
    driver.end()
    driver.stores_at_once = False
    driver.mark([T0, T1, T1, T0])
    assert [change.kind for change in driver.appended] == [ChangeKind.COMPLETE]


def test_marker_of_an_earlier_ending_does_not_count() -> None:
    driver = opened()
    driver.end()
    earlier = driver.endings[0]
    driver.add(T0)
    driver.marks_at_once = False
    driver.end()
    driver.transaction.on_marker(earlier, T0, 0)
    assert driver.transaction.open_partitions == {T0}
    assert driver.transaction.status is PREPARE_COMMIT


# Table of EndTxn


ENDS = {
    (ONGOING, True): OK,
    (ONGOING, False): OK,
    (PREPARE_COMMIT, True): BUSY,
    (PREPARE_COMMIT, False): WRONG,
    (PREPARE_ABORT, True): WRONG,
    (PREPARE_ABORT, False): BUSY,
    (COMPLETE_COMMIT, True): OK,
    (COMPLETE_COMMIT, False): WRONG,
    (COMPLETE_ABORT, True): WRONG,
    (COMPLETE_ABORT, False): OK,
    (EMPTY, True): WRONG,
    (EMPTY, False): WRONG,
}


@pytest.mark.parametrize(("case", "code"), ENDS.items(), ids=str)
def test_end_by_state(case: tuple[TransactionStatus, bool], code: ErrorCode) -> None:
    status, is_commit = case
    driver = Driver()
    driver.marks_at_once = False
    driver.transaction = Transaction("id", stored(status))
    assert driver.end(is_commit=is_commit) is code
    assert len(driver.log) == (1 if status is ONGOING else 0)


def test_end_needs_the_current_producer() -> None:
    driver = opened()
    assert driver.end(producer=identity(0, 5)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.end(producer=identity(1)) is FENCED
    driver.stores_at_once = False
    assert driver.end() is None
    assert driver.end() is BUSY


# AddPartitions and verification


def test_partitions_that_are_in_the_transaction_need_no_write() -> None:
    driver = opened()
    count = len(driver.log)
    assert (driver.add(T0), driver.add(T1, T0)) == (OK, OK)
    assert len(driver.log) == count


def test_partitions_may_be_added_one_by_one() -> None:
    """Each request writes all partitions again, so the record of many must stay small."""
    driver = begun()
    for number in range(MANY):
        assert driver.add(TopicPartition("t", number)) is OK
    assert len(driver.log) == MANY + 1
    assert len(transaction_value(driver.log[-1])) < 5 * MANY
    assert driver.end() is OK
    assert len(driver.endings[0].remaining) == 0
    assert driver.transaction.status is COMPLETE_COMMIT


def test_partitions_need_the_current_producer_and_no_pending_change() -> None:
    driver = begun()
    assert driver.add(T0, producer=identity(0, 5)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(T0, producer=identity(1)) is FENCED
    driver.stores_at_once = False
    assert driver.add(T0) is None
    assert driver.add(T1) is BUSY
    assert not driver.transaction.is_ending


def test_verification_sees_replicated_partitions_only_and_ignores_pending_changes() -> None:
    driver = begun()
    driver.add(T0)
    driver.stores_at_once = False
    driver.add(T1)
    verify = driver.transaction.verify
    assert verify(driver.producer, [T0, T1]) == {T0: OK, T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(identity(1), [T0]) == {T0: FENCED}
    assert verify(identity(0, 5), [T0]) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_verification_waits_for_the_end() -> None:
    transaction = Transaction("id", stored(PREPARE_ABORT))
    assert transaction.verify(identity(3), [T0]) == {T0: BUSY}


# InitProducerId


def test_each_new_producer_gets_a_larger_epoch() -> None:
    driver = begun()
    assert driver.initialize() == InitResult(OK, identity(1))
    assert driver.end(producer=identity(0)) is FENCED


def test_producer_that_continues_may_repeat_its_request() -> None:
    driver = begun()
    first = driver.initialize(identity(0))
    assert first == InitResult(OK, identity(1))
    assert driver.initialize(identity(0)) == first
    assert driver.initialize(identity(0)) == first
    assert driver.initialize(identity(1)) == InitResult(OK, identity(2))
    assert driver.initialize(identity(0)) == InitResult(FENCED)


def test_repeated_request_is_fenced_after_another_producer() -> None:
    driver = begun()
    driver.initialize(identity(0))
    driver.initialize()
    assert driver.initialize(identity(0)) == InitResult(FENCED)


def test_producer_with_another_id_is_fenced() -> None:
    driver = begun()
    assert driver.initialize(identity(0, 5)) == InitResult(FENCED)


def test_id_that_has_expired_accepts_a_producer_that_continues() -> None:
    driver = Driver()
    assert driver.initialize(identity(7, 99)) == InitResult(OK, identity(0))


def test_open_transaction_is_aborted_in_a_new_epoch_first() -> None:
    driver = opened()
    driver.marks_at_once = False
    assert driver.initialize() == InitResult(BUSY)
    assert driver.endings[0].producer == identity(1)
    assert not driver.endings[0].is_commit
    assert driver.initialize() == InitResult(BUSY)
    driver.mark()
    assert driver.initialize() == InitResult(OK, identity(2))


def test_old_producer_is_out_even_if_the_fencing_write_fails_and_costs_one_epoch() -> None:
    driver = opened()
    driver.store_error = FEW
    for _ in range(100):
        assert driver.initialize() == InitResult(AGAIN)
    assert driver.producer == identity(1)
    assert driver.end(producer=identity(0)) is FENCED
    driver.store_error = OK
    assert driver.initialize() == InitResult(BUSY)
    assert driver.initialize() == InitResult(OK, identity(2))
    assert driver.add(T0) is OK
    assert driver.initialize() == InitResult(BUSY)
    assert driver.producer == identity(3)


def test_epochs_run_out_and_a_new_id_begins() -> None:
    driver = Driver(stored(EMPTY, LAST_EPOCH - 1))
    assert driver.initialize() == InitResult(OK, identity(LAST_EPOCH))
    fresh = identity(0, PRODUCER_ID + 1)
    assert driver.initialize() == InitResult(OK, fresh)


def test_producer_whose_epochs_run_out_may_repeat_its_request() -> None:
    driver = Driver(stored(EMPTY, LAST_EPOCH))
    last, fresh = identity(LAST_EPOCH), identity(0, PRODUCER_ID + 1)
    assert driver.initialize(last) == InitResult(OK, fresh)
    assert driver.initialize(last) == InitResult(OK, fresh)
    assert driver.initialize(last) == InitResult(OK, fresh)
    assert driver.initialize(identity(LAST_EPOCH, 5)) == InitResult(FENCED)


def test_open_transaction_of_the_last_epoch_is_fenced_in_an_epoch_that_no_producer_gets() -> None:
    driver = Driver(stored(ONGOING, LAST_EPOCH))
    assert driver.initialize() == InitResult(BUSY)
    assert driver.endings[0].producer == identity(LAST_EPOCH + 1)
    assert driver.initialize() == InitResult(OK, identity(0, PRODUCER_ID + 1))


# Time


def test_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    driver = opened()
    assert driver.time_out()
    assert driver.transaction.status is COMPLETE_ABORT
    assert driver.end(producer=identity(0)) is FENCED
    assert not driver.time_out()


def test_timeout_waits_for_a_pending_commit() -> None:
    driver = opened()
    driver.stores_at_once = False
    driver.end()
    assert not driver.time_out()
    driver.store(FEW)
    assert driver.time_out()


@pytest.mark.parametrize("status", [EMPTY, COMPLETE_ABORT, COMPLETE_COMMIT])
def test_unused_id_expires(status: TransactionStatus) -> None:
    transaction = Transaction("id", stored(status))
    assert transaction.expire(599, 100) is None
    change = transaction.expire(600, 100)
    assert change is not None
    assert transaction.expire(600, 100) is None
    transaction.on_stored(change, FEW)
    again = transaction.expire(600, 100)
    assert again is not None
    transaction.on_stored(again, OK)
    assert not transaction.has_pending_change


@pytest.mark.parametrize("status", [ONGOING, PREPARE_ABORT, PREPARE_COMMIT])
def test_id_in_use_does_not_expire(status: TransactionStatus) -> None:
    assert Transaction("id", stored(status)).expire(10**12, 1) is None


def test_expiring_id_refuses_its_producer() -> None:
    driver = Driver(stored(EMPTY))
    driver.transaction.expire(10**12, 1)
    assert driver.initialize() == InitResult(BUSY)


# Failures


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FEW, AGAIN),
        (ErrorCode.REQUEST_TIMED_OUT, AGAIN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_failed_write_changes_nothing_and_the_request_may_be_repeated(
    error: ErrorCode, code: ErrorCode
) -> None:
    assert store_error(error) is code
    driver = begun()
    driver.store_error = error
    assert driver.add(T0) is code
    assert driver.initialize() == InitResult(code)
    driver.store_error = OK
    assert driver.add(T0) is OK
    driver.store_error = error
    assert driver.end() is code
    assert driver.transaction.status is ONGOING
    driver.store_error = OK
    assert driver.end() is OK


def test_completion_that_fails_is_written_again() -> None:
    driver = opened()
    driver.marks_at_once = False
    driver.end()
    driver.stores_at_once = False
    driver.mark()
    # A full disk, and a leader with another epoch, are errors for clients only.
    errors = [
        FEW,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    for error in errors:
        driver.store(error)
    assert len(driver.retried) == len(errors)
    assert driver.add(T0) is BUSY
    driver.store()
    assert driver.transaction.status is COMPLETE_COMMIT


def test_id_whose_first_write_failed_is_not_stored() -> None:
    driver = Driver()
    states = [driver.transaction.is_stored]
    driver.stores_at_once = False
    driver.initialize()
    states.append(driver.transaction.is_stored)
    driver.store(FEW)
    states.append(driver.transaction.is_stored)
    assert states == [False, True, False]


# Loading


@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
def test_loaded_decision_is_carried_out(status: TransactionStatus) -> None:
    driver = Driver(stored(status))
    assert driver.endings[0].is_commit is (status is PREPARE_COMMIT)
    assert driver.endings[0].producer == identity(3)
    assert driver.transaction.status in (COMPLETE_COMMIT, COMPLETE_ABORT)


@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
def test_loaded_decision_without_partitions_is_complete(status: TransactionStatus) -> None:
    driver = Driver(stored(status)._replace(partitions=frozenset()))
    assert driver.endings == []
    assert driver.transaction.status in (COMPLETE_COMMIT, COMPLETE_ABORT)


@pytest.mark.parametrize("status", [EMPTY, ONGOING, COMPLETE_ABORT, COMPLETE_COMMIT])
def test_other_loaded_states_need_nothing(status: TransactionStatus) -> None:
    driver = Driver(stored(status))
    assert (driver.endings, driver.appended, driver.log) == ([], [], [])
    assert not driver.transaction.is_ending


def test_every_stored_state_has_its_predecessors() -> None:
    assert set(PREDECESSORS) == set(TransactionStatus) - {
        TransactionStatus.DEAD,
        TransactionStatus.PREPARE_EPOCH_FENCE,
    }


def test_transition_that_the_table_forbids_is_a_bug() -> None:
    transaction = Transaction("id", stored(EMPTY))
    with pytest.raises(InvalidTransitionError, match="EMPTY -> PREPARE_ABORT"):
        transaction._fence(0, None)
