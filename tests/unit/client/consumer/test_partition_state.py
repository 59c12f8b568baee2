"""The topic that a position is about: `ottla.client.consumer.partition_state`."""

from uuid import uuid4

from kafkawire.ids import ZERO_TOPIC_ID
from ottla.client.consumer.partition_state import PartitionState
from tests.unit.client.client_fakes import T0


def test_a_topic_with_another_id_was_created_again() -> None:
    first, second = uuid4(), uuid4()
    state = PartitionState(T0)
    assert not state.adopt_topic(ZERO_TOPIC_ID, 1)
    assert not state.adopt_topic(first, 1)
    assert not state.adopt_topic(first, 2)
    # As from a broker that is too old for ids.
    assert not state.adopt_topic(ZERO_TOPIC_ID, 3)
    assert state.adopt_topic(second, 4)
    assert not state.adopt_topic(second, 5)


def test_a_topic_is_known_from_metadata_that_is_not_older_than_the_position() -> None:
    first, second, third = uuid4(), uuid4(), uuid4()
    state = PartitionState(T0)
    state.adopt_topic(first, 1)
    state.forget_topic(since=3)
    assert not state.adopt_topic(first, 2)
    assert not state.adopt_topic(second, 3)
    assert state.adopt_topic(third, 3)
