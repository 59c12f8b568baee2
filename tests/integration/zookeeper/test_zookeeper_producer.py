"""The producer on znodes, and the broker's nodes in Jafka's layout."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from coordination.client import Client
from coordination.errors import NoNodeError
from ottla import Admin, NewTopic
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.producer import ZooKeeperProducer
from tests.harness.cluster import ClusterProcesses
from tests.ports import free_port
from tests.waiting import DEADLINE_S, until, until_sync

SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "ottla.jafka.chroot": "/jafka",
    # A broker that hangs for a while keeps its session; one that dies lets it end at once.
    "zookeeper.session.timeout.ms": "30000",
}
SENT = 600
ORDER = ("broker.registered", "jafka.published", "request processing", "scheduler, log cleaner")
"""Events and steps of a broker's start."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, broker_count=2, overrides=SETTINGS) as cluster:
        yield cluster


async def add_topic(cluster: ClusterProcesses, name: str, *leaders: int) -> None:
    async with Admin(cluster.bootstrap) as admin:
        replicas = {number: (leader,) for number, leader in enumerate(leaders)}
        await admin.create_topics([NewTopic(name, assignment=replicas)])


async def texts(client: Client, parent: str) -> dict[str, bytes | None]:
    try:
        names = await client.get_children(parent)
    except NoNodeError:
        return {}
    found = {}
    for name in names:
        try:
            found[name] = (await client.get_data(f"{parent}/{name}"))[0]
        except NoNodeError:
            continue
    return found


async def eventually(client: Client, parent: str, expected: dict[str, bytes]) -> None:
    found: dict[str, bytes | None] = {}
    try:
        async with asyncio.timeout(DEADLINE_S):
            while (found := await texts(client, parent)) != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{parent} has {found}, not {expected}") from None


async def send(producer: ZooKeeperProducer, topic: str, count: int) -> Counter[int]:
    futures = [await producer.send(topic, b"value") for _ in range(count)]
    return Counter([(await future).partition for future in futures])


@pytest.mark.parametrize("layout", ["kafka", "jafka"])
async def test_all_targets_are_used_and_follow_the_brokers(
    cluster: ClusterProcesses, layout: str
) -> None:
    await add_topic(cluster, "t", 1, 1, 1, 2, 2, 2)
    chroot = "/jafka" if layout == "jafka" else ""
    async with Client(cluster.connect) as client:
        await eventually(client, "/jafka/brokers/topics/t", {"1": b"3", "2": b"3"})
        async with ZooKeeperProducer(
            cluster.connect + chroot, layout=layout, delivery_timeout_ms=30_000
        ) as producer:
            first = await send(producer, "t", SENT)
            assert set(first) == set(range(6))
            assert min(first.values()) > SENT / 6 / 2
            keyed = [await producer.send("t", b"v", key=b"k") for _ in range(20)]
            assert len({(await each).partition for each in keyed}) == 1
            added = cluster.add_broker()
            await add_topic(cluster, "later", added, 1)
            await until_exists(client, "/jafka/brokers/topics/later")
            await until_async(client, "/jafka/brokers/topics/later", lambda names: len(names) == 2)
            await until_used(producer, "later", {0, 1})
            cluster.kill(2)
            ids = "/jafka/brokers/ids"
            await until_async(client, ids, lambda names: "2" not in names)
            await until_async(client, "/brokers/ids", lambda names: "2" not in names)
            addresses = producer._addresses
            await until(lambda: 2 not in addresses.addresses, "the notification of the producer")
            await until_used(producer, "t", {0, 1, 2})
            assert set(await send(producer, "t", 100)) == {0, 1, 2}


async def until_used(producer: ZooKeeperProducer, topic: str, partitions: set[int]) -> None:
    used: set[int] = set()
    async with asyncio.timeout(DEADLINE_S):
        while used != partitions:
            used = set(await send(producer, topic, 30))


async def until_async(client: Client, parent: str, is_met: Callable[[list[str]], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_met(await client.get_children(parent)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def test_kazoo_reads_the_nodes_of_brokers(cluster: ClusterProcesses) -> None:
    """The nodes stand before a broker opens its channel, at its first start and the next."""
    kazoo = KazooClient(cluster.connect + "/jafka")
    kafkas = KazooClient(cluster.connect)

    def counts(topic: str) -> dict[str, bytes]:
        names = kazoo.get_children(f"/brokers/topics/{topic}")
        return {name: kazoo.get(f"/brokers/topics/{topic}/{name}")[0] for name in names}

    def owner(client: KazooClient, path: str) -> int:
        return int(client.get(path)[1].owner_session_id)

    with closing_kazoo(kazoo), closing_kazoo(kafkas):
        asyncio.run(add_topic(cluster, "a", 1, 2, 1))
        until_sync(lambda: kazoo.exists("/brokers/topics/a/2") is not None, "a new topic")
        until_sync(lambda: counts("a") == {"1": b"2", "2": b"1"}, "the counts")
        asyncio.run(grow(cluster, "a", 5))
        until_sync(lambda: sum(map(int, counts("a").values())) == 5, "a grown topic")
        first = cluster.brokers[1]
        cluster.stop(1)
        until_sync(lambda: "1" not in kazoo.get_children("/brokers/ids"), "the end of a broker")
        assert "1" not in counts("a")
        cluster.start_brokers(1)
        data, _ = kazoo.get("/brokers/ids/1")
        assert data.split(b":")[1:] == [b"127.0.0.1", str(cluster.ports[1]).encode(), b"true"]
        session = owner(kafkas, "/brokers/ids/1")
        assert session != 0
        assert owner(kazoo, "/brokers/ids/1") == owner(kazoo, "/brokers/topics/a/1") == session
        asyncio.run(delete(cluster, "a"))
        until_sync(lambda: "a" not in kazoo.get_children("/brokers/topics"), "a deleted topic")
    # The second start has a topic to count.
    assert cluster.brokers[1].wait_for_event("jafka.published")["topics"] == 1
    for broker in (first, cluster.brokers[1]):
        names = [str(each.get("step", each.get("event"))) for each in broker.events]
        places = [names.index(each) for each in ORDER]
        assert places == sorted(places)


async def grow(cluster: ClusterProcesses, topic: str, total: int) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_partitions({topic: total})


async def delete(cluster: ClusterProcesses, topic: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.delete_topics([topic])


@contextmanager
def closing_kazoo(client: KazooClient) -> Iterator[None]:
    client.start()
    try:
        yield
    finally:
        client.stop()
        client.close()


async def test_clients_use_the_layout_of_jafka(cluster: ClusterProcesses) -> None:
    await add_topic(cluster, "a", 1, 2, 1)
    async with Client(cluster.connect) as client:
        await eventually(client, "/jafka/brokers/topics/a", {"1": b"2", "2": b"1"})
        async with ZooKeeperProducer(cluster.connect + "/jafka", layout="jafka") as producer:
            await send(producer, "a", 60)
        records = 0
        async with ZooKeeperConsumer(
            cluster.connect + "/jafka", group_id="j", layout="jafka"
        ) as consumer:
            consumer.subscribe(["a"])
            async with asyncio.timeout(DEADLINE_S):
                while records < 60:
                    records += len(await consumer.fetch_batch())
        names = await client.get_children("/jafka/consumers/j/offsets/a")
        assert {name.partition("-")[0] for name in names} <= {"1", "2"}
        held = await texts(client, "/jafka/consumers/j/offsets/a")
        assert sum(int(data or b"") for data in held.values()) == 60


async def test_a_partition_added_to_a_known_topic_is_used_in_the_layout_of_jafka(
    cluster: ClusterProcesses,
) -> None:
    await add_topic(cluster, "grown", 1, 2)
    async with (
        Client(cluster.connect) as client,
        ZooKeeperProducer(cluster.connect + "/jafka", layout="jafka") as producer,
        ZooKeeperConsumer(cluster.connect + "/jafka", group_id="grown", layout="jafka") as consumer,
    ):
        await eventually(client, "/jafka/brokers/topics/grown", {"1": b"1", "2": b"1"})
        consumer.subscribe(["grown"])
        await until_used(producer, "grown", {0, 1})
        async with asyncio.timeout(DEADLINE_S):
            while len(consumer.assignment()) < 2:
                await consumer.fetch_batch(timeout_ms=50)
        await grow(cluster, "grown", 5)
        await until_used(producer, "grown", set(range(5)))
        seen: set[int] = set()
        async with asyncio.timeout(DEADLINE_S):
            while seen != set(range(5)):
                seen |= {each.partition for each in await consumer.fetch_batch()}


async def until_exists(client: Client, path: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await client.exists(path) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_clients_follow_brokers_to_other_ports(cluster: ClusterProcesses) -> None:
    await add_topic(cluster, "moved", 1, 2)
    async with (
        ZooKeeperProducer(cluster.connect, delivery_timeout_ms=60_000) as producer,
        ZooKeeperConsumer(
            cluster.connect, group_id="moved", auto_offset_reset="smallest"
        ) as consumer,
    ):
        consumer.subscribe(["moved"])
        seen = sent = 0
        # First as they are, then the first broker moves, then all.
        for moved in ((), (1,), (1, 2)):
            move(cluster, *moved)
            await send(producer, "moved", 20)
            sent += 20
            async with asyncio.timeout(DEADLINE_S):
                while seen < sent:
                    seen += len(await consumer.fetch_batch())
    async with Client(cluster.connect) as client:
        for parent in ("/brokers/ids", "/jafka/brokers/ids"):
            held = await texts(client, parent)
            for number in (1, 2):
                assert str(cluster.ports[number]) in (held[str(number)] or b"").decode(), parent


def move(cluster: ClusterProcesses, *brokers: int) -> None:
    """Restart brokers on other ports."""
    for number in brokers:
        cluster.stop(number)
    for number in brokers:
        cluster.ports[number] = free_port()
    if brokers:
        cluster.start_brokers(*brokers)
