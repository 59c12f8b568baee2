"""The topic that a position is about: `ottla.client.consumer.partition_state`."""

from uuid import uuid4

from kafkawire.ids import ZERO_TOPIC_ID
from ottla.client.consumer.partition_state import PartitionState
from tests.unit.client.client_fakes import T0


def test_a_topic_with_another_id_was_created_again() -> None:
    first, second = uuid4(), uuid4()
    state = PartitionState(T0)
    assert not state.adopt_topic(ZERO_TOPIC_ID)
    assert not state.adopt_topic(first)
    assert not state.adopt_topic(first)
    # As from a broker that is too old for ids.
    assert not state.adopt_topic(ZERO_TOPIC_ID)
    assert state.adopt_topic(second)
    assert not state.adopt_topic(second)
    state.forget_topic()
    assert not state.adopt_topic(first)
