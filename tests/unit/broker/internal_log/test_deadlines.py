from hypothesis import given
from hypothesis import strategies as st

from broker.groups.deadline_queue import REBALANCE, SYNC, Due, GroupDeadlines, Timer
from broker.internal_log.deadlines import MAX_STALE_ENTRIES

SESSION = Due(Timer.SESSION, "m")


def test_expired_deadlines_are_taken_once_and_in_order() -> None:
    deadlines = GroupDeadlines()
    deadlines.set(REBALANCE, 30)
    deadlines.set(SYNC, 10)
    deadlines.set(SESSION, 40)
    assert deadlines.take_expired(9) == []
    assert deadlines.take_expired(30) == [SYNC, REBALANCE]
    assert deadlines.take_expired(39) == []
    assert deadlines.next_ms == 40
    assert deadlines.take_expired(40) == [SESSION]
    assert deadlines.next_ms is None


def test_deadline_moved_later_expires_at_its_new_time() -> None:
    deadlines = GroupDeadlines()
    deadlines.set(SESSION, 10)
    deadlines.set(SESSION, 20)
    assert deadlines.next_ms == 10, "a lower bound, so that heartbeats cost nothing"
    assert deadlines.take_expired(10) == []
    assert deadlines.next_ms == 20
    deadlines.set(SESSION, 15)
    assert deadlines.next_ms == 15


def test_cancelled_deadline_does_not_expire() -> None:
    deadlines = GroupDeadlines()
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


def test_moved_deadlines_expire_in_order_of_time() -> None:
    deadlines = GroupDeadlines()
    deadlines.set(SESSION, 5)
    deadlines.set(SYNC, 20)
    deadlines.set(SESSION, 25)
    deadlines.set(REBALANCE, 20)
    assert deadlines.take_expired(30) == [SYNC, REBALANCE, SESSION]


def test_stale_heap_entries_are_dropped() -> None:
    deadlines = GroupDeadlines()
    for number in range(1_000):
        deadlines.set(Due(Timer.SESSION, str(number)), 1_000_000 + number)
        deadlines.cancel(Due(Timer.SESSION, str(number)))
    assert len(deadlines._heap) <= MAX_STALE_ENTRIES + 1


DUES = [REBALANCE, SYNC, *(Due(Timer.SESSION, name) for name in "abc")]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.sampled_from(DUES), st.integers(0, 30)),
            st.tuples(st.just("cancel"), st.sampled_from(DUES), st.just(0)),
            st.tuples(st.just("take"), st.just(SYNC), st.integers(0, 30)),
        ),
        max_size=60,
    )
)
def test_expired_deadlines_agree_with_a_linear_search(steps: list[tuple[str, Due, int]]) -> None:
    deadlines, model = GroupDeadlines(), dict[Due, int]()
    for step, due, at_ms in steps:
        if step == "set":
            deadlines.set(due, at_ms)
            model[due] = at_ms
        elif step == "cancel":
            deadlines.cancel(due)
            model.pop(due, None)
        else:
            expired = deadlines.take_expired(at_ms)
            assert set(expired) == {each for each in model if model[each] <= at_ms}
            times = [model.pop(each) for each in expired]
            assert times == sorted(times)
        assert (deadlines.next_ms is None) == (not model)
        assert deadlines.next_ms is None or deadlines.next_ms <= min(model.values())
