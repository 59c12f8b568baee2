from broker.groups.deadlines import REBALANCE, SYNC, Deadlines, Due, Timer

SESSION = Due(Timer.SESSION, "m")


def test_what_is_due_is_taken_once_and_in_order() -> None:
    deadlines = Deadlines()
    deadlines.set(REBALANCE, 30)
    deadlines.set(SYNC, 10)
    deadlines.set(SESSION, 40)
    assert deadlines.take_expired(9) == []
    assert deadlines.take_expired(30) == [SYNC, REBALANCE]
    assert deadlines.take_expired(39) == []
    assert deadlines.next_ms == 40
    assert deadlines.take_expired(40) == [SESSION]
    assert deadlines.next_ms is None


def test_a_deadline_that_moved_back_is_due_when_it_is() -> None:
    deadlines = Deadlines()
    deadlines.set(SESSION, 10)
    deadlines.set(SESSION, 20)
    assert deadlines.next_ms == 10, "a lower bound, so that heartbeats cost nothing"
    assert deadlines.take_expired(10) == []
    assert deadlines.next_ms == 20
    deadlines.set(SESSION, 15)
    assert deadlines.next_ms == 15


def test_what_is_cancelled_is_not_due() -> None:
    deadlines = Deadlines()
    deadlines.set(SESSION, 10)
    deadlines.set(SYNC, 10)
    deadlines.cancel(SESSION)
    deadlines.cancel(REBALANCE)
    assert SESSION not in deadlines
    assert SYNC in deadlines
    assert deadlines.take_expired(10) == [SYNC]
    deadlines.set(SYNC, 20)
    deadlines.cancel(SYNC)
    assert deadlines.next_ms is None
    deadlines.set(SYNC, 30)
    deadlines.cancel_all()
    assert deadlines.take_expired(30) == []
