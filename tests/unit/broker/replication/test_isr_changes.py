"""Who is asked for another in-sync set, and how often: `isr_changes`, `isr_recorder`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.replication.isr_changes import Answer, IsrChanges, IsrQuestion
from broker.replication.isr_recorder import alter_partition, answers_of
from broker.replication.leadership import Leadership, Proposal, Recorded
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kafkawire.schema import decode, encode
from tests.unit.broker.replicas import B1, B2, NOW_MS, PARTITION, World, turn

TIMEOUT_S = 5.0


class Recorder:
    """Answers as the test has said, at last yes."""

    def __init__(self, *answers: ErrorCode | OSError) -> None:
        self.asked: list[IsrQuestion] = []
        self._answers = list(answers)

    async def record(self, questions: Sequence[IsrQuestion]) -> Sequence[Answer]:
        self.asked += questions
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, OSError):
            raise answer
        return [recorded(question.proposal) if answer is None else answer for question in questions]


def recorded(proposal: Proposal) -> Recorded:
    return Recorded(
        isr=frozenset(one for one, _ in proposal.isr),
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch + 1,
    )


class Asking:
    """One leadership that wants broker 2 in its in-sync set, and who asks for it."""

    def __init__(self, world: World, recorder: Recorder) -> None:
        self.leadership: Leadership = world.replicate_to()
        self.table = ReplicaTable()
        self.table.add(world.replica)
        self.changed: list[TopicPartition] = []
        self.changes = IsrChanges(
            recorder,
            table=self.table,
            on_high_watermark=self.changed.append,
            loop=asyncio.get_running_loop(),
            now_ms=lambda: NOW_MS,
        )
        assert self.leadership.on_fetch(B2, Offset(0), NOW_MS)
        self.changes.put(world.replica)

    async def until_asked(self, recorder: Recorder, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(recorder.asked) < count or self.leadership.question is not None:
                self.changes.on_metadata_changed()
                await asyncio.sleep(0)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_what_is_recorded_is_adopted(world: World) -> None:
    recorder = Recorder()
    asking = Asking(world, recorder)
    await turn()
    assert asking.leadership.state.isr == {B1, B2}
    assert asking.changed == [PARTITION]
    assert len(recorder.asked) == 1


@pytest.mark.parametrize("trouble", [OSError("gone"), ErrorCode.REQUEST_TIMED_OUT])
async def test_a_question_is_asked_until_it_is_answered(
    world: World, trouble: ErrorCode | OSError
) -> None:
    recorder = Recorder(trouble, trouble)
    asking = Asking(world, recorder)
    await asking.until_asked(recorder, 3)
    assert asking.leadership.state.isr == {B1, B2}


async def test_a_refusal_that_proves_nothing_ends_the_asking_until_the_next_leadership(
    world: World,
) -> None:
    recorder = Recorder(ErrorCode.INVALID_UPDATE_VERSION)
    asking = Asking(world, recorder)
    await turn()
    assert (asking.leadership.question, len(recorder.asked)) == (None, 1)
    assert asking.leadership.state.maximal == {B1, B2}


async def test_the_answer_to_a_leadership_that_is_over_is_left_out(world: World) -> None:
    recorder = Recorder()
    asking = Asking(world, recorder)
    world.replica.resign()
    await turn()
    assert asking.leadership.state.isr == {B1}
    await asking.changes.stop()


async def test_nothing_is_asked_after_the_stop(world: World) -> None:
    recorder = Recorder(OSError("gone"))
    asking = Asking(world, recorder)
    await turn()
    await asking.changes.stop()
    asking.changes.put(world.replica)
    await turn()
    assert len(recorder.asked) == 1


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(int=5)
PROPOSAL = Proposal(
    isr=((BrokerId(1), 11), (BrokerId(2), 12)), leader_epoch=LeaderEpoch(3), partition_epoch=8
)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_alter_partition_asks_the_same(version: int) -> None:
    questions = [IsrQuestion(T1, ID, PROPOSAL), IsrQuestion(T0, ID, PROPOSAL)]
    request = alter_partition(BrokerId(1), 11, questions, version)
    request = decode(AlterPartitionRequest, encode(request, version), version)
    [topic] = request.topics
    assert (topic.topic_id == ID) is (version >= 2)
    assert [each.partition_index for each in topic.partitions] == [0, 1]
    for each in topic.partitions:
        assert (each.leader_epoch, each.partition_epoch) == (3, 8)
        if version >= 3:
            assert [(one.broker_id, one.broker_epoch) for one in each.new_isr_with_epochs] == [
                (1, 11),
                (2, 12),
            ]
        else:
            assert each.new_isr == [1, 2]


@pytest.mark.parametrize("version", [1, 3])
def test_every_question_gets_its_answer(version: int) -> None:
    told = [
        ResponsePartitionData(partition_index=1, error_code=ErrorCode.INELIGIBLE_REPLICA),
        ResponsePartitionData(partition_index=0, isr=[1, 2], leader_epoch=3, partition_epoch=9),
    ]
    topics = [ResponseTopicData(topic_name="t", topic_id=ID, partitions=told)]
    response = AlterPartitionResponse(topics=topics)
    response = decode(AlterPartitionResponse, encode(response, version), version)
    asked = [IsrQuestion(TopicPartition("t", index), ID, PROPOSAL) for index in range(3)]
    assert answers_of(response, asked, version) == [
        recorded(PROPOSAL),
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
