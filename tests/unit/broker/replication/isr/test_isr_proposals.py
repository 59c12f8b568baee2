"""Submission of ISR proposals and its retries: `isr_proposals`, `alter_partition_recorder`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.config.replication_keys import ReplicationKeys
from broker.replication.isr.alter_partition_recorder import alter_partition, results_of
from broker.replication.isr.isr_proposals import IsrProposal, IsrProposals, ProposalResult
from broker.replication.isr.isr_state import Proposal
from broker.replication.leadership import Leadership
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from kafkawire.schema import decode, encode
from kafkawire.sentinels import NO_EPOCH
from tests.unit.broker.replicas import B1, B2, NOW_MS, PARTITION, World, turn
from tests.waiting import DEADLINE_S


class Recorder:
    """Returns the given results in order, then accepts every proposal."""

    def __init__(self, *results: ErrorCode | OSError) -> None:
        self.submitted: list[IsrProposal] = []
        self._results = list(results)

    async def record(self, proposals: Sequence[IsrProposal]) -> Sequence[ProposalResult]:
        self.submitted += proposals
        result = self._results.pop(0) if self._results else None
        if isinstance(result, OSError):
            raise result
        return [recorded(each.proposal) if result is None else result for each in proposals]


def recorded(proposal: Proposal) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=B1,
        isr=tuple(one for one, _ in proposal.isr),
        controller_epoch=NO_EPOCH,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch + 1,
    )


class Submitting:
    """A leadership that proposes to add broker 2 to the in-sync set, and its `IsrProposals`."""

    def __init__(self, world: World, recorder: Recorder) -> None:
        self.leadership: Leadership = world.replicate_to()
        self.changed: list[TopicPartition] = []
        world.replicas.events.on_change(self.changed.append)
        self.changes = IsrProposals(
            recorder,
            table=world.replicas.table,
            config=ReplicationKeys(),
            loop=asyncio.get_running_loop(),
            clock_ms=lambda: NOW_MS,
        )
        assert self.leadership.on_fetch(B2, Offset(0), NOW_MS)
        self.changes.put(PARTITION)

    async def until_submitted(self, recorder: Recorder, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(recorder.submitted) < count or self.leadership.proposal_to_send is not None:
                self.changes.on_metadata_changed()
                await asyncio.sleep(0)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_recorded_set_is_adopted(world: World) -> None:
    recorder = Recorder()
    submitting = Submitting(world, recorder)
    await turn()
    assert submitting.leadership.state.isr == {B1, B2}
    assert submitting.changed == [PARTITION]
    assert len(recorder.submitted) == 1


@pytest.mark.parametrize("trouble", [OSError("gone"), ErrorCode.REQUEST_TIMED_OUT])
async def test_proposal_is_retried_until_it_has_a_result(
    world: World, trouble: ErrorCode | OSError
) -> None:
    recorder = Recorder(trouble, trouble)
    submitting = Submitting(world, recorder)
    await submitting.until_submitted(recorder, 3)
    assert submitting.leadership.state.isr == {B1, B2}


async def test_refusal_that_proves_nothing_ends_retries_until_the_next_leadership(
    world: World,
) -> None:
    recorder = Recorder(ErrorCode.INVALID_UPDATE_VERSION)
    submitting = Submitting(world, recorder)
    await turn()
    assert (submitting.leadership.proposal_to_send, len(recorder.submitted)) == (None, 1)
    assert submitting.leadership.state.maximal == {B1, B2}


async def test_result_for_an_ended_leadership_is_ignored(world: World) -> None:
    recorder = Recorder()
    submitting = Submitting(world, recorder)
    world.replica.resign()
    await turn()
    assert submitting.leadership.state.isr == {B1}
    await submitting.changes.stop()


async def test_no_proposal_is_submitted_after_stop(world: World) -> None:
    recorder = Recorder(OSError("gone"))
    submitting = Submitting(world, recorder)
    await turn()
    await submitting.changes.stop()
    submitting.changes.put(PARTITION)
    await turn()
    assert len(recorder.submitted) == 1


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(int=5)
PROPOSAL = Proposal(
    isr=((BrokerId(1), 11), (BrokerId(2), 12)), leader_epoch=LeaderEpoch(3), partition_epoch=8
)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_alter_partition_carries_the_same_proposal(version: int) -> None:
    proposals = [IsrProposal(T1, ID, PROPOSAL), IsrProposal(T0, ID, PROPOSAL)]
    request = alter_partition(BrokerId(1), 11, proposals, version)
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
def test_every_proposal_gets_its_result(version: int) -> None:
    results = [
        ResponsePartitionData(partition_index=1, error_code=ErrorCode.INELIGIBLE_REPLICA),
        ResponsePartitionData(
            partition_index=0, leader_id=1, isr=[1, 2], leader_epoch=3, partition_epoch=9
        ),
    ]
    topics = [ResponseTopicData(topic_name="t", topic_id=ID, partitions=results)]
    response = AlterPartitionResponse(topics=topics)
    response = decode(AlterPartitionResponse, encode(response, version), version)
    submitted = [IsrProposal(TopicPartition("t", index), ID, PROPOSAL) for index in range(3)]
    assert results_of(response, submitted, version) == [
        recorded(PROPOSAL),
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
