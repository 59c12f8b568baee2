"""Every batch of a partition gets an epoch and sequence that no other batch has."""

import hypothesis.strategies as st
from hypothesis import given

from kafkawire.ids import ProducerId
from ottla.client.producer.producer_sequences import (
    MAX_EPOCH,
    MAX_SEQUENCE,
    ProducerIdentity,
    ProducerSequences,
)
from tests.unit.client.client_fakes import T0, T1

ID = ProducerId(7)


def sequences(epoch: int = 0) -> ProducerSequences:
    made = ProducerSequences()
    made.adopt(ID, epoch)
    return made


def test_each_partition_has_its_own_sequence() -> None:
    made = sequences()
    assert [made.take(T0, 3)[1], made.take(T1, 5)[1], made.take(T0, 1)[1]] == [0, 0, 3]


def test_after_the_last_sequence_comes_the_first() -> None:
    made = sequences()
    made.take(T0, MAX_SEQUENCE)
    assert [made.take(T0, 2)[1], made.take(T0, 1)[1]] == [MAX_SEQUENCE, 1]


def test_after_a_gap_every_partition_begins_a_new_epoch() -> None:
    made = sequences()
    lost, _ = made.take(T0, 3)
    made.take(T1, 5)
    made.on_gap(lost)
    new = ProducerIdentity(ID, 1)
    assert [made.take(T0, 1), made.take(T1, 1), made.take(T0, 1)] == [(new, 0), (new, 0), (new, 1)]


def test_a_second_loss_of_the_same_epoch_changes_nothing() -> None:
    made = sequences()
    lost, _ = made.take(T0, 3)
    made.on_gap(lost)
    made.take(T0, 2)
    made.on_gap(lost)
    assert made.take(T0, 1) == (ProducerIdentity(ID, 1), 2)


def test_after_the_last_epoch_a_new_id_is_needed() -> None:
    made = sequences(MAX_EPOCH)
    lost, _ = made.take(T0, 3)
    made.on_gap(lost)
    assert made.identity is None
    made.adopt(ProducerId(8), 0)
    assert made.take(T0, 1) == (ProducerIdentity(ProducerId(8), 0), 0)


@given(st.lists(st.tuples(st.sampled_from([T0, T1]), st.integers(1, 4), st.booleans())))
def test_no_sequence_number_is_assigned_twice(batches: list[tuple[object, int, bool]]) -> None:
    made = sequences()
    assigned: set[tuple[object, ProducerIdentity, int]] = set()
    for partition, count, is_lost in batches:
        identity, base = made.take(partition, count)  # type: ignore[arg-type]
        numbers = {(partition, identity, base + number) for number in range(count)}
        assert not numbers & assigned
        assigned |= numbers
        if is_lost:
            made.on_gap(identity)
