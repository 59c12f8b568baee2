"""Elections and reassignments with the admin client, against a scripted cluster."""

import asyncio

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from ottla import Admin, TopicPartition
from ottla.client.admin_model import ElectionType, Reassignment
from ottla.client.errors import BrokerError, ConnectionLostError, LeaderElectionError
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import Hold, LoseResponse, Omit

B0, B1 = BrokerId(0), BrokerId(1)
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


async def test_only_partitions_whose_leader_changed_are_returned(pair: FakeCluster) -> None:
    pair.create("a", leaders=[0, 0])
    async with Admin(pair.bootstrap) as admin:
        assert await admin.elect_leaders() == [A1]
        assert await admin.elect_leaders([A0, A1], ElectionType.PREFERRED) == []
    assert [held.leader for held in pair.logs.topics["a"].partitions] == [0, 1]


async def test_a_partition_that_is_given_twice_is_elected_once(pair: FakeCluster) -> None:
    pair.create("a", leaders=[0, 0])
    async with Admin(pair.bootstrap) as admin:
        assert await admin.elect_leaders([A1, A1]) == [A1]
    # Brokers answer such a request with the result of the last of the same partitions.
    (request,) = pair.seen(ApiKey.ELECT_LEADERS)
    assert [topic.partitions for topic in request.topic_partitions] == [[1]]


async def test_an_election_for_an_unknown_partition_fails(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(LeaderElectionError, match="a-0") as caught:
            await admin.elect_leaders([A0], ElectionType.UNCLEAN)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.elected == []


async def test_a_partition_without_a_leader_hides_no_changed_leader(pair: FakeCluster) -> None:
    pair.create("a", leaders=[0, 0])
    missing = [TopicPartition("gone", 0), TopicPartition("gone", 1)]
    async with Admin(pair.bootstrap) as admin:
        with pytest.raises(LeaderElectionError, match="gone-0") as caught:
            await admin.elect_leaders([A0, *missing, A1])
    assert caught.value.elected == [A1]
    assert list(caught.value.refused) == missing
    assert ["gone-1" in note for note in caught.value.__notes__] == [True]


async def test_many_elections_take_several_requests(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    pair.create("a", leaders=[0, 0])
    missing = [TopicPartition("gone", 0), TopicPartition("gone", 1)]
    async with Admin(pair.bootstrap) as admin:
        # The refusal of the first one does not keep the others from being held.
        with pytest.raises(LeaderElectionError, match="gone-0") as caught:
            await admin.elect_leaders([missing[0], A0, A1, missing[1]])
    assert caught.value.elected == [A1]
    assert list(caught.value.refused) == missing
    assert len(pair.seen(ApiKey.ELECT_LEADERS)) == 4


async def test_a_lost_request_hides_no_refusal_of_an_earlier_one(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    pair.create("a", leaders=[0, 0])
    is_open = asyncio.Event()
    is_open.set()
    pair.script(ApiKey.ELECT_LEADERS, Hold(is_open), LoseResponse())
    async with Admin(pair.bootstrap) as admin:
        with pytest.raises(ConnectionLostError) as caught:
            await admin.elect_leaders([TopicPartition("gone", 0), A1])
    assert ["gone-0" in note for note in caught.value.__notes__] == [True]


async def test_a_partition_that_the_response_leaves_out_has_no_new_leader(
    pair: FakeCluster,
) -> None:
    pair.create("a", leaders=[0, 0])
    pair.script(ApiKey.ELECT_LEADERS, Omit())
    async with Admin(pair.bootstrap) as admin:
        with pytest.raises(LeaderElectionError, match="a-0: the response has no result") as caught:
            await admin.elect_leaders([A0, A1])
    assert list(caught.value.refused) == [A0, A1]
    assert caught.value.elected == []


async def test_a_move_is_started_listed_and_cancelled(pair: FakeCluster) -> None:
    pair.create("a", leaders=[0, 0])
    async with Admin(pair.bootstrap) as admin:
        await admin.alter_reassignments({A0: [1], A1: [1]})
        moving = Reassignment(replicas=(B0, B1), adding=(B1,), removing=(B0,))
        assert await admin.list_reassignments() == {A0: moving, A1: moving}
        assert await admin.list_reassignments([A1]) == {A1: moving}
        await admin.alter_reassignments({A0: None, A1: None})
        assert await admin.list_reassignments() == {}
        with pytest.raises(BrokerError) as caught:
            await admin.alter_reassignments({A0: None})
    assert caught.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


async def test_many_moves_take_several_requests(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.admin.admin_replicas.MAX_MOVES_PER_REQUEST", 1)
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    pair.create("a", leaders=[0, 0])
    async with Admin(pair.bootstrap) as admin:
        # The refusal of the first move does not keep the second one from being started.
        with pytest.raises(BrokerError) as caught:
            await admin.alter_reassignments({A0: None, A1: [1]})
        assert set(await admin.list_reassignments([A0, A1])) == {A1}
        await admin.alter_reassignments({A0: [1]})
        assert set(await admin.list_reassignments([A0, A1])) == {A0, A1}
    assert caught.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert len(pair.seen(ApiKey.ALTER_PARTITION_REASSIGNMENTS)) == 3
    assert len(pair.seen(ApiKey.LIST_PARTITION_REASSIGNMENTS)) == 4


async def test_elections_and_moves_find_the_controller(pair: FakeCluster) -> None:
    pair.create("a", leaders=[0, 0])
    async with Admin(pair.bootstrap, **FAST) as admin:
        pair.controller_id = 1
        assert await admin.elect_leaders([A1]) == [A1]
        pair.controller_id = 0
        await admin.alter_reassignments({A0: [1]})
        pair.controller_id = 1
        assert set(await admin.list_reassignments()) == {A0}
