"""Plans that read and write the offsets of groups in the coordinator."""

import pytest

from clusterstate.old_offsets import read_old_offsets, write_old_offsets
from clusterstate.plans import (
    MAX_ATTEMPTS,
    Create,
    Node,
    Nodes,
    Outcome,
    Outcomes,
    Read,
    Refusal,
    Write,
)
from kafkawire.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
DONE = Outcome((1,))
MISSING = Outcome((), Refusal.NO_NODE, 0)


def test_offsets_are_read_from_the_nodes() -> None:
    plan = read_old_offsets("g", [A, B])
    assert next(plan) == Read(("/consumers/g/offsets/t/0", "/consumers/g/offsets/t/1"))
    with pytest.raises(StopIteration) as stop:
        plan.send(Nodes((Node(b"12", 0, 1), None)))
    assert stop.value.value == {A: 12, B: None}


def run(answers: list[Outcomes], offsets: dict[TopicPartition, int]) -> set[TopicPartition]:
    plan = write_old_offsets("g", offsets)
    try:
        effect = next(plan)
        while True:
            assert isinstance(effect, Write)
            creates_parents = isinstance(effect.transactions[0][0], Create) and (
                effect.transactions[0][0].data is None
            )
            count = len(effect.transactions)
            answer = Outcomes((DONE,) * count) if creates_parents else answers.pop(0)
            effect = plan.send(answer)
    except StopIteration as stop:
        refused: set[TopicPartition] = stop.value
        return refused


def test_an_offset_is_replaced_or_created_with_its_parents() -> None:
    assert run([Outcomes((DONE, MISSING)), Outcomes((DONE,))], {A: 1, B: 2}) == set()
    assert run([], {}) == set()


def test_an_offset_that_another_client_creates_meanwhile_is_replaced() -> None:
    exists = Outcome((), Refusal.NODE_EXISTS, 0)
    answers = [Outcomes((MISSING,)), Outcomes((exists,)), Outcomes((DONE,))]
    assert run(answers, {A: 1}) == set()


def test_a_refused_offset_is_named() -> None:
    assert run([Outcomes((DONE, Outcome((), Refusal.OTHER, 0)))], {A: 1, B: 2}) == {B}
    assert run([Outcomes((MISSING,))] * MAX_ATTEMPTS, {A: 1}) == {A}
