"""The topic that a position is about: `ottla.client.consumer.partition_state`."""

from uuid import uuid4

from kafkawire.ids import ZERO_TOPIC_ID, LeaderEpoch, Offset
from kafkawire.sentinels import EARLIEST_TIMESTAMP, NO_EPOCH
from ottla.client.consumer.partition_state import PartitionState, TopicChange
from tests.unit.client.client_fakes import T0, state_at

FIRST, SECOND, THIRD = uuid4(), uuid4(), uuid4()


def sought() -> PartitionState:
    """A partition of the first topic, to be read from the committed offset or the start."""
    state = PartitionState(T0)
    state.wants_committed, state.reset_to = True, EARLIEST_TIMESTAMP
    state.adopt_topic(FIRST, 1)
    return state


def test_a_topic_with_another_id_was_created_again() -> None:
    state = state_at(5)
    assert state.adopt_topic(ZERO_TOPIC_ID, 1) is TopicChange.NONE
    assert state.adopt_topic(FIRST, 1) is TopicChange.NONE
    assert state.adopt_topic(FIRST, 2) is TopicChange.NONE
    # As from a broker that is too old for ids.
    assert state.adopt_topic(ZERO_TOPIC_ID, 3) is TopicChange.NONE
    assert state.adopt_topic(SECOND, 4) is TopicChange.WHILE_READING
    assert state.adopt_topic(SECOND, 5) is TopicChange.NONE


def test_a_suspended_partition_is_fetched_again_after_it_was_rewound() -> None:
    state = state_at(5)
    state.suspend()
    state.rewind()
    assert state.retry_at_s == 0.0
    state.on_failure(retry_at_s=3.0)
    state.rewind()
    assert state.retry_at_s == 3.0


def test_a_topic_is_known_from_metadata_that_is_not_older_than_the_position() -> None:
    state = state_at(5)
    state.adopt_topic(FIRST, 1)
    state.await_topic(since=3)
    awaited = []
    for topic_id, refresh in ((FIRST, 2), (SECOND, 3)):
        assert state.adopt_topic(topic_id, refresh) is TopicChange.NONE
        awaited.append(state.awaits_topic)
    assert awaited == [True, False]
    assert state.adopt_topic(THIRD, 3) is TopicChange.WHILE_READING


def test_a_topic_is_known_once_a_broker_has_read_in_it() -> None:
    state = state_at(5)
    state.forget_topic(since=3)
    assert not state.awaits_topic
    # A request by name proves nothing.
    state.confirm_topic(ZERO_TOPIC_ID)
    assert state.topic_id == ZERO_TOPIC_ID
    state.confirm_topic(FIRST)
    assert state.adopt_topic(SECOND, 2) is TopicChange.WHILE_READING


def test_a_lookup_in_flight_is_repeated_in_a_topic_that_is_created_again() -> None:
    state = sought()
    state.has_request = True
    jump_count = state.jump_count
    assert state.adopt_topic(SECOND, 2) is TopicChange.BEFORE_READING
    assert state.jump_count > jump_count
    assert (state.has_request, state.wants_committed) == (False, True)
    assert state.reset_to == EARLIEST_TIMESTAMP


def test_a_lookup_is_repeated_if_its_topic_was_created_again_before_it_was_read() -> None:
    state = sought()
    state.settle(Offset(7), LeaderEpoch(3))
    assert (state.next_offset, state.wants_committed, state.reset_to) == (7, False, None)
    assert state.adopt_topic(SECOND, 2) is TopicChange.BEFORE_READING
    assert (state.next_offset, state.fetch_offset) == (None, None)
    assert (state.position_epoch, state.fetch_epoch) == (NO_EPOCH, NO_EPOCH)
    assert (state.wants_committed, state.reset_to) == (True, EARLIEST_TIMESTAMP)
    state.settle(Offset(0))
    state.confirm_topic(SECOND)
    assert state.adopt_topic(THIRD, 3) is TopicChange.WHILE_READING


def test_no_lookup_is_repeated_after_a_jump() -> None:
    state = PartitionState(T0)
    state.settle(Offset(7))
    state.jump(Offset(8))
    state.adopt_topic(FIRST, 1)
    assert state.adopt_topic(SECOND, 2) is TopicChange.WHILE_READING
    assert state.next_offset == 8
