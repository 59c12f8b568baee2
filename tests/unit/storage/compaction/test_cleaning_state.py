"""The table of a partition's cleaning: every pair of state and event."""

import itertools

import pytest

from kafkawire.ids import TopicPartition
from storage.compaction.cleaning_state import (
    IDLE,
    CleaningState,
    CleaningStates,
    Event,
    InvalidTransition,
    Phase,
)

RUNNING = CleaningState(Phase.IN_PROGRESS)


def aborted(count: int) -> CleaningState:
    return CleaningState(Phase.ABORTED, count)


def paused(count: int) -> CleaningState:
    return CleaningState(Phase.PAUSED, count)


TABLE = {
    (IDLE, Event.START): RUNNING,
    (IDLE, Event.PAUSE): paused(1),
    (RUNNING, Event.DONE): IDLE,
    (RUNNING, Event.PAUSE): aborted(1),
    (aborted(0), Event.DONE): IDLE,
    (aborted(0), Event.PAUSE): aborted(1),
    (aborted(2), Event.DONE): paused(2),
    (aborted(2), Event.PAUSE): aborted(3),
    (aborted(2), Event.RESUME): aborted(1),
    (paused(1), Event.PAUSE): paused(2),
    (paused(1), Event.RESUME): IDLE,
    (paused(2), Event.PAUSE): paused(3),
    (paused(2), Event.RESUME): paused(1),
}
STATES = [IDLE, RUNNING, aborted(0), aborted(2), paused(1), paused(2)]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, Event)), ids=str)
def test_every_pair_of_state_and_event_follows_the_table(
    state: CleaningState, event: Event
) -> None:
    if (state, event) in TABLE:
        assert state.on(event) == TABLE[state, event]
    else:
        with pytest.raises(InvalidTransition, match=f"{event.value} while {state.phase.value}"):
            state.on(event)


def test_each_partition_has_its_own_cleaning_state() -> None:
    states, one, other = CleaningStates(), TopicPartition("t", 0), TopicPartition("t", 1)
    assert states.on(Event.START, one) == RUNNING == states[one]
    assert states[other] == IDLE
    assert states.on(Event.DONE, one) == IDLE == states[one]
