"""A producer on znodes at a coordinator in memory: the ends of its session, and new partitions."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from clusterstate.znodes.registration import Endpoint, Registration
from coordination.client import SessionState
from kafkawire.ids import BrokerId
from ottla import ZooKeeperProducer
from ottla.client.errors import UnknownPartitionError
from tests.simulation.coordination.test_cluster import ADDRESS
from tests.simulation.zookeeper.test_group_nodes import Place, run

TIMEOUT_MS = 3_000
OUTAGE_S = 60
"""Longer than a session and an attempt to connect together."""


class FakeProducer:
    """Stands for the producer of records, whose start may take long."""

    is_slow = False

    def __init__(self, _bootstrap: Sequence[str]) -> None:
        self.bootstrap: list[Sequence[str]] = []
        self.known_at_s = 0.0
        """Time from which the brokers know the partition."""

    async def start(self) -> None:
        if self.is_slow:
            # The brokers are slow to answer.
            await asyncio.sleep(OUTAGE_S)

    async def send(self, topic: str, *_: object, **_options: object) -> str:
        if asyncio.get_running_loop().time() < self.known_at_s:
            raise UnknownPartitionError("no such partition")
        return topic

    def use_bootstrap(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap.append(bootstrap)

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def fake_producer(monkeypatch: pytest.MonkeyPatch) -> type[FakeProducer]:
    monkeypatch.setattr("ottla.zookeeper.producer.Producer", FakeProducer)
    return FakeProducer


def at_port(port: int) -> bytes:
    endpoint = Endpoint("PLAINTEXT", "broker", port)
    return Registration(broker_id=BrokerId(1), endpoints=(endpoint,)).encode(timestamp_ms=1)


async def producer_of(place: Place) -> ZooKeeperProducer:
    await place.root.set_data("/brokers/ids/1", at_port(9092))
    producer = ZooKeeperProducer(ADDRESS, session_timeout_ms=TIMEOUT_MS)
    # The thread would keep time of its own.
    producer._client._has_heartbeat_thread = False
    return producer


async def judge_follows(place: Place, producer: ZooKeeperProducer) -> None:
    """The producer has a session again, and sees the changes of brokers."""
    assert producer._client.state is SessionState.CONNECTED
    for port in (9093, 9094):
        # The client of the test has a new session, too.
        root = await place.client()
        await root.set_data("/brokers/ids/1", at_port(port))
        # Virtual time in which the notification arrives.
        await asyncio.sleep(1)
        assert [each.port for each in producer._addresses.addresses.values()] == [port]


def test_a_producer_reconnects_after_an_attempt_that_timed_out() -> None:
    async def story(place: Place) -> None:
        producer = await producer_of(place)
        async with producer:
            place.loop.network.unreachable.add(ADDRESS)
            place.loop.network.cut_all()
            # Virtual time of the outage.
            await asyncio.sleep(OUTAGE_S)
            place.loop.network.unreachable.discard(ADDRESS)
            # Virtual time for a further attempt.
            await asyncio.sleep(OUTAGE_S)
            await judge_follows(place, producer)

    run(story)


def test_a_producer_whose_session_ends_during_its_start_reconnects(
    fake_producer: type[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_producer, "is_slow", True)

    async def story(place: Place) -> None:
        producer = await producer_of(place)
        starting = asyncio.ensure_future(producer.start())
        # Virtual time for the connection.
        await asyncio.sleep(1)
        assert producer._client.session_id
        place.loop.network.unreachable.add(ADDRESS)
        place.loop.network.cut_all()
        # Virtual time for the end of the session.
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        assert producer._client.state is SessionState.EXPIRED
        place.loop.network.unreachable.discard(ADDRESS)
        await starting
        # Virtual time for an attempt to connect.
        await asyncio.sleep(OUTAGE_S)
        await judge_follows(place, producer)
        await producer.close()

    run(story)


@pytest.mark.parametrize(("late_s", "is_sent"), [(0.0, True), (0.5, True), (5.0, False)])
def test_a_partition_that_a_broker_does_not_know_yet_is_awaited(
    monkeypatch: pytest.MonkeyPatch, late_s: float, is_sent: bool
) -> None:
    async def choose(*_: object) -> int:
        return 7

    monkeypatch.setattr(ZooKeeperProducer, "_partition", choose)

    async def story(place: Place) -> None:
        async with await producer_of(place) as producer:
            fake = cast("FakeProducer", producer._producer)
            fake.known_at_s = place.loop.time() + late_s
            if is_sent:
                # The fake returns the topic.
                assert str(await producer.send("t", b"value")) == "t"
            else:
                with pytest.raises(UnknownPartitionError):
                    await producer.send("t", b"value")

    run(story)
