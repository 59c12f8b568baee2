"""Guards against transactions that nobody ends (KIP-890)."""

import pytest

from broker.replication import transaction_guards
from broker.replication.transaction_guards import TransactionalAppend, TransactionGuards
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.records import BatchHeader
from tests.unit.storage.produced_batches import MAX_SEQUENCE, header_of

PRODUCER, NOW_MS = 7, 1000
CLIENT = TransactionalAppend(needs_guard=True)
COORDINATOR = TransactionalAppend(needs_guard=True, has_sequence=False)
UNVERIFIED, TOO_EARLY = ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def checked(
    guards: TransactionGuards, header: BatchHeader, append: TransactionalAppend = CLIENT
) -> ErrorCode:
    try:
        guards.check(header, append)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_only_a_verified_producer_may_open_a_transaction() -> None:
    guards, first = TransactionGuards(), header_of(PRODUCER, 0)
    assert checked(guards, first) is UNVERIFIED
    guard = guards.begin(PRODUCER, 0, 0, NOW_MS)
    assert checked(guards, first) is UNVERIFIED
    guards.verify(PRODUCER, guard)
    assert checked(guards, first) is ErrorCode.NONE
    assert checked(guards, header_of(PRODUCER + 1, 0)) is UNVERIFIED
    assert checked(guards, header_of(PRODUCER, 0, epoch=1)) is UNVERIFIED
    guards.drop(PRODUCER)
    assert checked(guards, first) is UNVERIFIED
    assert not len(guards)


def test_late_answer_does_not_verify_a_later_transaction() -> None:
    """The end of a transaction drops its guard, even if the next one has asked already."""
    guards = TransactionGuards()
    old = guards.begin(PRODUCER, 0, 0, NOW_MS)
    guards.drop(PRODUCER)
    guards.verify(PRODUCER, old)
    assert checked(guards, header_of(PRODUCER, 0)) is UNVERIFIED
    new = guards.begin(PRODUCER, 0, 0, NOW_MS)
    assert new is not old
    guards.verify(PRODUCER, old)
    assert checked(guards, header_of(PRODUCER, 0)) is UNVERIFIED


def test_requests_of_one_transaction_share_a_guard() -> None:
    guards = TransactionGuards()
    guard = guards.begin(PRODUCER, 0, 5, NOW_MS)
    assert guards.begin(PRODUCER, 0, 9, NOW_MS) is guard
    assert guard.lowest_sequence == 5
    assert guards.begin(PRODUCER, 0, 2, NOW_MS) is guard
    assert guard.lowest_sequence == 2


@pytest.mark.parametrize(
    ("lowest", "sent", "code"),
    [
        pytest.param(5, 5, ErrorCode.NONE, id="the first batch"),
        pytest.param(5, 6, TOO_EARLY, id="a later batch"),
        pytest.param(5, 4, ErrorCode.NONE, id="an earlier batch"),
        pytest.param(MAX_SEQUENCE, 0, TOO_EARLY, id="later, after the wrap"),
        pytest.param(0, MAX_SEQUENCE, ErrorCode.NONE, id="earlier, before the wrap"),
        pytest.param(-1, 3, ErrorCode.NONE, id="no sequence before"),
    ],
)
def test_no_batch_is_written_before_the_first_one(lowest: int, sent: int, code: ErrorCode) -> None:
    """A retry of the first batch, refused by a busy coordinator, would find a gap before it."""
    guards = TransactionGuards()
    guards.verify(PRODUCER, guards.begin(PRODUCER, 0, lowest, NOW_MS))
    assert checked(guards, header_of(PRODUCER, sent)) is code
    assert checked(guards, header_of(PRODUCER, sent), COORDINATOR) is ErrorCode.NONE


def test_newer_epoch_replaces_the_guard_and_an_older_one_has_no_effect() -> None:
    guards = TransactionGuards()
    old = guards.begin(PRODUCER, 1, 5, NOW_MS)
    new = guards.begin(PRODUCER, 2, 0, NOW_MS)
    guards.verify(PRODUCER, old)
    assert checked(guards, header_of(PRODUCER, 5, epoch=1)) is UNVERIFIED
    guards.verify(PRODUCER, guards.begin(PRODUCER, 1, 0, NOW_MS))
    assert checked(guards, header_of(PRODUCER, 0, epoch=1)) is UNVERIFIED
    guards.verify(PRODUCER, new)
    assert checked(guards, header_of(PRODUCER, 0, epoch=2)) is ErrorCode.NONE
    assert checked(guards, header_of(PRODUCER, 5, epoch=1)) is UNVERIFIED


def test_number_of_guards_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_guards, "MAX_GUARDS", 2)
    guards = TransactionGuards()
    for producer_id in (1, 2, 3):
        guards.verify(producer_id, guards.begin(producer_id, 0, 0, NOW_MS))
    assert len(guards) == 2
    assert [checked(guards, header_of(each, 0)) for each in (1, 2, 3)] == [
        UNVERIFIED,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]


def test_guards_expire() -> None:
    guards = TransactionGuards()
    for number, producer_id in enumerate((1, 2, 3)):
        guards.begin(producer_id, 0, 0, NOW_MS + number)
    guards.expire(NOW_MS + 10, 10)
    assert len(guards) == 2
    guards.expire(NOW_MS + 12, 10)
    guards.expire(NOW_MS + 13, 10)
    assert not len(guards)
