"""Consumers whose group meets in the coordinator, with a broker and a coordinator."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from coordination.client import Client
from ottla import Admin, NewTopic, Producer
from ottla.client.record import ConsumerRecord
from ottla.zookeeper.consumer import ZooKeeperConsumer
from tests.harness.cluster import ClusterProcesses
from tests.waiting import until

TOPIC = "orders"
PARTITIONS = 4
SETTINGS = {"default.replication.factor": "1", "min.insync.replicas": "1"}
QUICK = {
    "session_timeout_ms": 4_000,
    "auto_commit_interval_ms": 200,
    "rebalance_backoff_ms": 1_100,
    "auto_offset_reset": "smallest",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(
        tmp_path_factory.mktemp("cluster"), broker_count=1, overrides=SETTINGS
    ) as cluster:
        yield cluster


async def make_topic(cluster: ClusterProcesses, name: str, partitions: int = PARTITIONS) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions)])


async def send(cluster: ClusterProcesses, topic: str, first: int, count: int) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number in range(first, first + count):
            await producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
        await producer.flush()


class Member:
    """A consumer, and a task that collects its records."""

    def __init__(
        self, cluster: ClusterProcesses, group: str, topic: str, **options: object
    ) -> None:
        self.consumer = ZooKeeperConsumer(
            cluster.connect,
            group_id=group,
            **(QUICK | options),  # type: ignore[arg-type]
        )
        self.topic = topic
        self.records: list[ConsumerRecord] = []
        self.task: asyncio.Task[None]

    async def __aenter__(self) -> "Member":
        await self.consumer.start()
        self.consumer.subscribe([self.topic])
        self.task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        while True:
            self.records += await self.consumer.fetch_batch()

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close()

    @property
    def owned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())


def values(*members: Member) -> Counter[int]:
    return Counter(int(each.value or b"") for member in members for each in member.records)


@pytest.fixture
async def coordinator(cluster: ClusterProcesses) -> AsyncIterator[Client]:
    async with Client(cluster.connect) as client:
        yield client


async def offsets(client: Client, group: str, topic: str) -> dict[int, int]:
    parent = f"/consumers/{group}/offsets/{topic}"
    names = await client.get_children(parent)
    return {int(name): int((await client.get_data(f"{parent}/{name}"))[0] or b"") for name in names}


async def test_members_divide_the_partitions_and_resume_at_the_offsets(
    cluster: ClusterProcesses, coordinator: Client
) -> None:
    await make_topic(cluster, "divided")
    await send(cluster, "divided", 0, 100)
    async with Member(cluster, "g-divided", "divided") as first:
        await until(lambda: len(values(first)) == 100, "all records")
        async with Member(cluster, "g-divided", "divided") as second:
            await until(lambda: len(first.owned) == len(second.owned) == 2, "half each")
            assert sorted(first.owned + second.owned) == [0, 1, 2, 3]
            await send(cluster, "divided", 100, 100)
            await until(lambda: len(values(first, second)) == 200, "records of both")
            owners = await coordinator.get_children("/consumers/g-divided/owners/divided")
            assert len(owners) == PARTITIONS
    assert set(values(first, second).values()) == {1}
    assert await offsets(coordinator, "g-divided", "divided") == dict.fromkeys(range(4), 50)
    assert await coordinator.get_children("/consumers/g-divided/ids") == []
    assert await coordinator.get_children("/consumers/g-divided/owners/divided") == []
    async with Member(cluster, "g-divided", "divided") as third:
        await send(cluster, "divided", 200, 4)
        await until(lambda: sum(values(third).values()) == 4)
    assert set(values(third)) == {200, 201, 202, 203}
