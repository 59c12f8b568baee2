"""Consumers whose group meets in the coordinator, with a broker and a coordinator."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from coordination.client import Client, ops
from kafkawire.ids import TopicPartition
from ottla import Admin, Consumer, NewTopic, Producer
from ottla.client.errors import CommitFailedError
from ottla.client.offset import CommittedOffset
from ottla.client.record import ConsumerRecord
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.kafka_group import kafka_member_count, warn_of_kafka_members
from ottla.zookeeper.offset_store import Found, Offsets
from tests.harness.cluster import ClusterProcesses
from tests.integration.coordination.process import four_letter
from tests.waiting import until, until_sync

TOPIC = "orders"
PARTITIONS = 4
SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    # A broker that hangs for a while keeps its session; one that dies lets it end at once.
    "zookeeper.session.timeout.ms": "30000",
}
SESSION_S = 4
"""Timeout of a session that is to end, or nearly does."""
QUICK = {
    "session_timeout_ms": 30_000,
    "auto_commit_interval_ms": 200,
    "rebalance_backoff_ms": 1_100,
    "rebalance_max_retries": 30,
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
        self.lost: list[TopicPartition] = []
        self.task: asyncio.Task[None]

    async def __aenter__(self) -> "Member":
        await self.consumer.start()
        self.consumer.subscribe([self.topic], on_lost=self._on_lost)
        self.task = asyncio.create_task(self._read())
        return self

    async def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.lost += partitions

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


class MemoryStore:
    """A store of the application."""

    def __init__(self) -> None:
        self.held: dict[TopicPartition, CommittedOffset] = {}

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        return {each: self.held.get(each) for each in partitions}

    async def write(self, offsets: Offsets) -> None:
        self.held |= offsets


@pytest.mark.parametrize("place", ["kafka", "application"])
async def test_a_commit_of_a_former_owner_to_another_store_fails(
    cluster: ClusterProcesses, coordinator: Client, place: str
) -> None:
    topic, store = f"moved-{place}", MemoryStore()
    await make_topic(cluster, topic)
    await send(cluster, topic, 0, 4)
    async with Member(
        cluster,
        f"g-{topic}",
        topic,
        offsets="kafka" if place == "kafka" else store,
        enable_auto_commit=False,
    ) as member:
        await until(lambda: len(values(member)) == 4, "all records")
        partition = TopicPartition(topic, 0)

        async def committed() -> int | None:
            at = (await member.consumer.committed([partition]))[partition]
            return at and at.offset

        await member.consumer.commit()
        assert await committed() == 1
        # Another session owns a partition now.
        owner = f"/consumers/g-{topic}/owners/{topic}/0"
        await coordinator.multi([ops.delete(owner), ops.create(owner, b"d-0", ephemeral=True)])
        with pytest.raises(CommitFailedError):
            await member.consumer.commit({partition: 0})
        assert await committed() == 1
        await coordinator.delete(owner)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_busy_loop_loses_its_session_after_the_timeout_only(
    cluster: ClusterProcesses, is_lost: bool
) -> None:
    """From half of the timeout on, nothing keeps the session of a busy loop."""
    topic = f"busy-{is_lost}"
    await make_topic(cluster, topic)
    await send(cluster, topic, 0, 100)
    timeout_ms = 1_000 * SESSION_S
    async with Member(cluster, f"g-{topic}", topic, session_timeout_ms=timeout_ms) as member:
        await until(lambda: len(values(member)) == 100, "all records")
        session = member.consumer._client.session_id
        if is_lost:
            until_sync(lambda: f"{session:#x}" not in sessions(cluster), "the end of the session")
            # Records may arrive before the member learns that its session has ended.
            await until(lambda: member.consumer._client.session_id != session, "a new session")
        else:
            # Like a long computation, as the wait above.
            time.sleep(0.4 * SESSION_S)  # noqa: ASYNC251
        await send(cluster, topic, 100, 100)
        await until(lambda: len(values(member)) == 200, "the records after the pause")
        await until(lambda: member.owned == [0, 1, 2, 3], "all partitions")
        assert (member.consumer._client.session_id == session) is not is_lost
        assert sorted(each.partition for each in member.lost) == ([0, 1, 2, 3] if is_lost else [])
        assert member.consumer.counters()["rebalances"] == 1 + is_lost


def sessions(cluster: ClusterProcesses) -> str:
    """Return the live sessions, as the coordinator lists them."""
    assert cluster.coordinator is not None
    return four_letter(cluster.coordinator.port, "dump")


WARNING = "group.kafka_group_has_members group=twice"


async def test_a_kafka_group_of_the_same_name_is_warned_of_at_the_start(
    cluster: ClusterProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    await make_topic(cluster, "twice")
    async with Consumer(cluster.bootstrap, group_id="twice") as kafka:
        kafka.subscribe(["twice"])
        await kafka.fetch_batch(timeout_ms=1)
        await until(lambda: bool(kafka.assignment()), "the member of the Kafka group")
        async with Member(cluster, "twice", "twice") as member:
            await until(lambda: WARNING in caplog.text, "the warning")
            brokers = member.consumer._cluster
            assert brokers is not None
            assert await kafka_member_count(brokers, "twice", 30) == 1
            assert await kafka_member_count(brokers, "another", 30) == 0
            await kafka.close()
            caplog.clear()
            # The group still exists, without members.
            await warn_of_kafka_members(brokers, "twice", 30)
    assert WARNING not in caplog.text


async def test_a_callback_may_close_the_consumer_that_is_being_closed(
    cluster: ClusterProcesses,
) -> None:
    await make_topic(cluster, "closed-twice")
    consumer = ZooKeeperConsumer(
        cluster.connect,
        group_id="g-closed-twice",
        **QUICK,  # type: ignore[arg-type]
    )
    revoked: list[TopicPartition] = []

    async def on_revoked(partitions: Sequence[TopicPartition]) -> None:
        await consumer.close()
        revoked.extend(partitions)

    await consumer.start()
    consumer.subscribe(["closed-twice"], on_revoked=on_revoked)
    await until(lambda: len(consumer.assignment()) == PARTITIONS, "the assignment")
    # Less than the time after which the close gives the callback up.
    async with asyncio.timeout(20):
        await consumer.close()
    assert sorted(each.partition for each in revoked) == [0, 1, 2, 3]


async def test_a_callback_may_be_the_first_to_close_the_consumer(cluster: ClusterProcesses) -> None:
    await make_topic(cluster, "closed-inside")
    consumer = ZooKeeperConsumer(
        cluster.connect,
        group_id="g-closed-inside",
        **QUICK,  # type: ignore[arg-type]
    )
    returned = asyncio.Event()

    async def on_assigned(_partitions: Sequence[TopicPartition]) -> None:
        await consumer.close()
        returned.set()

    # Less than the time after which the close gives the callback up.
    async with asyncio.timeout(20):
        await consumer.start()
        consumer.subscribe(["closed-inside"], on_assigned=on_assigned)
        await returned.wait()
        await consumer.close()
    assert consumer.assignment() == []
