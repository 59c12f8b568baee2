"""Cancellation of every await of the client, after every number of turns of the event loop.

No task or connection may leak (the fixtures check both), no future may stay unsettled, and the
client must still work or be closed.
"""

import asyncio
from typing import Any

import pytest

from kafkawire.apis import ApiKey
from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.client.errors import ClientClosedError
from ottla.client.producer import producer as producer_module
from ottla.client.producer.producer_batch import Delivery
from tests.integration.client.client_support import cancel_after
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import Never
from tests.waiting import until

LONG_ENOUGH = 1_000_000
STEPS = (*range(60), LONG_ENOUGH)


async def test_connecting_can_be_cancelled_at_any_point(cluster: FakeCluster) -> None:
    cluster.create("t")
    outcomes = set()
    for steps in STEPS:
        producer = Producer(cluster.bootstrap)
        outcomes.add(await cancel_after(producer.start(), steps))
        await producer.close()
    assert outcomes == {True, False}


async def test_a_whole_producer_can_be_cancelled_at_any_point(cluster: FakeCluster) -> None:
    cluster.create("t")
    deliveries: list[Delivery] = []
    outcomes = set()

    async def produce() -> None:
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            for _ in range(3):
                deliveries.append(await producer.send("t", b"v"))
                await deliveries[-1]

    for steps in (*range(0, 120, 2), LONG_ENOUGH):
        outcomes.add(await cancel_after(produce(), steps))
    assert outcomes == {True, False}
    assert deliveries
    assert all(delivery.done() for delivery in deliveries)


async def test_a_cancelled_block_sends_the_accepted_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    accepted = asyncio.Event()

    async def produce() -> None:
        async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
            await producer.send("t", b"v")
            accepted.set()
            await asyncio.Event().wait()

    producing = asyncio.ensure_future(produce())
    await accepted.wait()
    producing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await producing
    assert log.values() == [b"v"]


async def test_a_cancelled_block_is_not_held_up_by_a_silent_broker(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "CANCELLED_CLOSE_MS", 20)
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())

    async def produce() -> None:
        async with Producer(cluster.bootstrap) as producer:
            await producer.send_and_wait("t", b"v")

    producing = asyncio.ensure_future(produce())
    await cluster.wait_for(ApiKey.PRODUCE)
    producing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await producing


async def test_a_cancelled_block_is_not_held_up_by_another_close(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "CANCELLED_CLOSE_MS", 20)
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())
    closing: list[asyncio.Future[None]] = []

    async def produce() -> None:
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"v")
            await cluster.wait_for(ApiKey.PRODUCE)
            closing.append(asyncio.ensure_future(producer.close()))
            await asyncio.Event().wait()

    producing = asyncio.ensure_future(produce())
    await until(lambda: bool(closing), "the first close")
    producing.cancel()
    ended, _ = await asyncio.wait([producing], timeout=10)
    assert ended
    await closing[0]


async def test_a_block_that_ctrl_c_ends_is_not_held_up_by_a_silent_broker(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a cancelled task, as in the blocks of `ottla.sync`.
    monkeypatch.setattr(producer_module, "CANCELLED_CLOSE_MS", 20)
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())

    async def produce() -> None:
        async with asyncio.timeout(20), Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"v")
            await cluster.wait_for(ApiKey.PRODUCE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await produce()


async def test_a_cancelled_send_withdraws_its_claim_to_memory(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    async with Producer(
        cluster.bootstrap, batch_size_bytes=100, buffer_memory_bytes=300
    ) as producer:
        budget = producer._accumulator.budget
        await producer.send("t", b"x" * 60)
        await cluster.wait_for(ApiKey.PRODUCE)
        await producer.send("t", b"y" * 60)
        blocked = [asyncio.ensure_future(producer.send("t", b"z" * 60)) for _ in range(5)]
        await until(lambda: budget.is_exhausted, "a waiting sender")
        for task in blocked[::2]:
            task.cancel()
        release.set()
        results = await asyncio.gather(*blocked, return_exceptions=True)
        await producer.flush()
        assert budget.free_bytes == budget.total_bytes
    assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 3
    assert len(log.records()) == 4


async def test_a_cancelled_send_discards_its_record(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    filler = b"x" * (producer_module.TURN_BYTES - 200)
    accepted = []
    outcomes = set()
    async with Producer(
        cluster.bootstrap, linger_ms=60_000, batch_size_bytes=producer_module.TURN_BYTES
    ) as producer:
        await producer.partitions("t")
        for number in range(20):
            steps, value = number % 5, b"%d" % number + filler
            is_cancelled = await cancel_after(producer.send("t", value), steps)
            outcomes.add(is_cancelled)
            if not is_cancelled:
                accepted.append(value)
    assert log.values() == accepted
    assert outcomes == {True, False}


async def test_a_cancelled_delivery_leaves_the_others_alone(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=20) as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(3)]
        deliveries[1].cancel()
        assert (await deliveries[2]).offset == 2
    assert log.values() == [b"0", b"1", b"2"]


async def test_flushing_can_be_cancelled_and_repeated(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        for steps in range(12):
            await producer.send("t", b"v")
            await cancel_after(producer.flush(), steps)
        assert producer._accumulator.flush_count == 0
        await producer.flush()
        assert len(log.records()) == 12


async def test_closing_can_be_cancelled_at_any_point(cluster: FakeCluster) -> None:
    cluster.create("t")
    for steps in range(15):
        producer = Producer(cluster.bootstrap, linger_ms=60_000)
        await producer.start()
        delivery = await producer.send("t", b"v")
        await cancel_after(producer.close(), steps)
        await producer.close()
        assert delivery.done()
        with pytest.raises(ClientClosedError):
            await producer.send("t", b"v")


async def test_a_whole_consumer_can_be_cancelled_at_any_point(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(*[b"%d" % number for number in range(5)])
    outcomes = set()

    async def consume() -> None:
        async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics("t")
            await consumer.seek_to_beginning()
            async for record in consumer:
                if record.offset == 4:
                    break

    for steps in (*range(0, 150, 2), LONG_ENOUGH):
        outcomes.add(await cancel_after(consume(), steps))
    assert outcomes == {True, False}


async def test_a_cancelled_read_loses_no_record(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    got: list[int] = []
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])

        async def read() -> None:
            got.extend(record.offset for record in await consumer.fetch_batch(2))

        for steps in range(40):
            log.append_values(b"a", b"b")
            cluster.announce()
            await cancel_after(read(), steps)
        while len(got) < 80:
            await read()
    assert got == list(range(80))


async def test_admin_requests_can_be_cancelled_at_any_point(cluster: FakeCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        for steps in range(20):
            await cancel_after(admin.create_topics([NewTopic(f"t{steps}", 1)]), steps)
            await cancel_after(admin.list_topics(), steps)
        # The connection still matches responses with requests.
        assert set(await admin.list_topics()) == set(cluster.logs.topics)


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
async def test_a_client_can_be_closed_at_any_point_of_its_start(
    cluster: FakeCluster, kind: type[Admin | Consumer | Producer]
) -> None:
    outcomes = set()
    for steps in STEPS[1:]:
        settings: dict[str, Any] = {"group_id": "g"} if kind is Consumer else {}
        client = kind(cluster.bootstrap, **settings)
        start = asyncio.ensure_future(client.start())
        for _ in range(steps):
            await asyncio.sleep(0)
            if start.done():
                break
        await client.close()
        (failure,) = await asyncio.gather(start, return_exceptions=True)
        assert failure is None or isinstance(failure, ClientClosedError)
        outcomes.add(failure is None)
    assert outcomes == {True, False}


async def test_of_two_starts_at_once_one_is_refused(cluster: FakeCluster) -> None:
    admin = Admin(cluster.bootstrap)
    results = await asyncio.gather(admin.start(), admin.start(), return_exceptions=True)
    assert [type(each) for each in results] == [type(None), ClientClosedError]
    await admin.close()
