"""Finding transaction coordinators, and asking the right one."""

import asyncio
import uuid
from collections.abc import Iterable
from typing import Any, cast

import pytest

from broker.cluster.metadata_cache import (
    ClusterImage,
    Endpoint,
    MetadataCache,
    PartitionState,
    TopicState,
)
from broker.cluster.peer import Peer, PeerError
from broker.cluster.peers import Peers
from broker.transactions.coordinator_links import CoordinatorLinks
from broker.transactions.verification import Asked, Codes
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC, partition_for
from kafkawire.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sentinels import NO_LEADER

B1, B2 = BrokerId(1), BrokerId(2)
HOME = Endpoint("one", 9092)
MOVED = Endpoint("two", 9092)
P0 = TopicPartition("t", 0)


class FakePeer:
    """A connection that answers at once."""

    def __init__(self, endpoint: Endpoint, version: int) -> None:
        self.endpoint = endpoint
        self.is_closed = False
        self.is_interrupted = False
        self.versions: list[int] = []
        self._version = version

    async def choose_version(self, key: ApiKey) -> int:
        assert key is ApiKey.ADD_PARTITIONS_TO_TXN
        return self._version

    async def ask(self, message: object, response_type: type[Any], **kwargs: int) -> Any:
        assert isinstance(message, AddPartitionsToTxnRequest)
        assert kwargs["timeout_ms"] == 9
        self.versions.append(kwargs["version"])
        return response_type()

    def interrupt(self) -> None:
        self.is_interrupted = True

    async def close(self) -> None:
        self.is_closed = True


class Cluster:
    """The metadata, and the links of broker 1."""

    def __init__(self, version: int = 5) -> None:
        self.metadata = MetadataCache()
        self.endpoints = {B2: HOME}
        self.peers: list[FakePeer] = []
        self.version = version
        self.links = CoordinatorLinks(
            B1,
            self.metadata,
            peers=Peers(self.endpoints.get, self._make_peer),
            timeout_ms=9,
            verify_own=self._verify_own,
        )

    def lead(self, *leaders: int) -> None:
        """Let brokers lead the partitions of the topic."""
        partitions = {
            index: PartitionState(
                index=index,
                leader_and_isr=LeaderAndIsr(
                    leader=BrokerId(leader), isr=(B1, B2), controller_epoch=1
                ),
                replicas=(B1, B2),
            )
            for index, leader in enumerate(leaders)
        }
        topic = TopicState(name=TRANSACTIONS_TOPIC, topic_id=uuid.uuid4(), partitions=partitions)
        self.metadata.adopt(ClusterImage(topics={TRANSACTIONS_TOPIC: topic}))

    def _make_peer(self, endpoint: Endpoint) -> Peer:
        self.peers.append(FakePeer(endpoint, self.version))
        return cast(Peer, self.peers[-1])

    def _verify_own(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes:
        del asked
        return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)


def test_coordinator_is_the_leader_of_the_partition_of_the_id() -> None:
    cluster = Cluster()
    assert cluster.links.coordinator_of("id") is None
    cluster.lead()
    assert cluster.links.coordinator_of("id") is None
    leaders = [1, 2, 1, 2, int(NO_LEADER)]
    cluster.lead(*leaders)
    for number in range(20):
        leader = leaders[partition_for(f"id {number}", len(leaders))]
        assert (cluster.links.coordinator_of(f"id {number}") or NO_LEADER) == leader


def test_own_coordinator_is_asked_without_a_connection() -> None:
    cluster = Cluster()
    asked = Asked("id", 7, 0)
    cluster.lead(B2)
    assert cluster.links.verify_here(asked, [P0]) is None
    cluster.lead(B1)
    assert cluster.links.verify_here(asked, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}


async def test_connection_is_used_again_until_the_broker_moves() -> None:
    cluster, request = Cluster(), AddPartitionsToTxnRequest(transactions=[])
    for _ in range(2):
        answer = await cluster.links.verify(B2, request)
        assert isinstance(answer, AddPartitionsToTxnResponse)
    assert [each.versions for each in cluster.peers] == [[5, 5]]
    cluster.endpoints[B2] = MOVED
    await cluster.links.verify(B2, request)
    assert [(each.endpoint, each.is_closed) for each in cluster.peers] == [
        (HOME, True),
        (MOVED, False),
    ]
    await cluster.links.close()
    assert cluster.peers[1].is_closed


async def test_request_to_a_coordinator_that_lost_its_session_is_given_up() -> None:
    cluster = Cluster()
    await cluster.links.verify(B2, AddPartitionsToTxnRequest(transactions=[]))
    cluster.lead(B2)
    assert not cluster.peers[0].is_interrupted
    cluster.endpoints.clear()
    cluster.lead(B1)
    assert cluster.peers[0].is_interrupted


async def test_old_brokers_cannot_verify() -> None:
    cluster = Cluster(version=3)
    assert await cluster.links.verify(B2, AddPartitionsToTxnRequest(transactions=[])) is None
    assert cluster.peers[0].versions == []


async def test_dead_broker_cannot_be_asked() -> None:
    cluster = Cluster()
    cluster.endpoints.clear()
    with pytest.raises(PeerError, match="broker 2 is not alive"):
        await asyncio.wait_for(
            cluster.links.verify(B2, AddPartitionsToTxnRequest(transactions=[])), 1
        )
