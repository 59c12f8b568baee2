import dataclasses
from collections.abc import Sequence

import pytest

from kafkawire.declaration import layout_of
from kafkawire.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest
from kafkawire.schema import INT32, STRING, array, field, message, since, struct


@struct
class Pair:
    left: int = field(INT32, default=-1)
    right: str = field(STRING)


@message(versions=(0, 1), flexible=1)
class Toy:
    """A message for tests only."""

    pair: Pair = field(Pair)
    pairs: Sequence[Pair] = field(array(Pair))


def test_every_field_has_the_default_of_its_declaration_or_type() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.rack_id) == (-1, 0x7FFF_FFFF, "")
    assert request.topics == ()
    assert request.cluster_id is None
    assert MetadataRequest().topics == ()
    assert PartitionProduceData().records is None


def test_fields_are_keyword_only_and_known() -> None:
    with pytest.raises(TypeError):
        Pair(1, "a")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Pair(middle=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Pair().middle = 1  # type: ignore[attr-defined]


def test_messages_are_dataclasses() -> None:
    changed = dataclasses.replace(Pair(left=1, right="a"), left=2)
    assert changed == Pair(left=2, right="a")


def test_an_array_equals_any_sequence_of_equal_elements() -> None:
    assert Toy(pairs=[Pair(left=1)]) == Toy(pairs=(Pair(left=1),))
    assert Toy(pairs=[Pair(left=1)]) != Toy(pairs=[Pair(left=2)])
    others: list[object] = [Pair(), "Toy()", None]
    assert Toy() not in others


def test_repr_shows_only_fields_that_differ_from_defaults() -> None:
    toy = Toy(pair=Pair(left=2, right="b"), pairs=[])
    assert repr(toy) == "Toy(pair=Pair(left=2, right='b'))"
    assert repr(Toy()) == "Toy()"


def test_the_default_of_a_nested_struct_is_shared_and_refuses_changes() -> None:
    request = FetchRequest()
    assert request.replica_state is FetchRequest().replica_state
    assert request.replica_state == ReplicaState()
    assert repr(request.replica_state) == "ReplicaState()"
    with pytest.raises(AttributeError, match="belongs to the shared default"):
        request.replica_state.replica_id = 1
    request.replica_state = ReplicaState(replica_id=1)
    assert FetchRequest().replica_state.replica_id == -1


def test_the_layout_keeps_the_order_of_the_wire() -> None:
    names = [each.name for each in layout_of(ProduceRequest).fields]
    assert names == ["transactional_id", "acks", "timeout_ms", "topic_data"]
    assert layout_of(FetchTopic).versions is None
    assert layout_of(MetadataResponse).versions == (0, 12)


def test_only_declared_classes_have_a_layout() -> None:
    with pytest.raises(KeyError):
        layout_of(int)
    with pytest.raises(KeyError):
        array(int)


def test_the_first_version_with_a_field_is_known() -> None:
    assert since(FetchTopic, "topic_id") == 13
    assert since(FetchTopic, "partitions") == 0
