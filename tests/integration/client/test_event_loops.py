"""The client on asyncio's loop and on uvloop: large and small frames, load, clean shutdown."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import uvloop

from kafkawire.apis import ApiKey
from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.client.errors import ClientClosedError
from tests.integration.client.client_support import FAST, no_leak
from tests.integration.client.fake_broker import fake_cluster
from tests.integration.client.fake_fault import HangUp

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


async def round_trip() -> None:
    values = [bytes([number % 251]) * (number * 37 % 60_000) for number in range(600)]
    async with fake_cluster() as cluster, no_leak(cluster):
        cluster.create("t")
        cluster.script(ApiKey.PRODUCE, HangUp())
        async with Producer(
            cluster.bootstrap, linger_ms=1, buffer_memory_bytes=1_000_000, **FAST
        ) as producer:
            for number, value in enumerate(values):
                await producer.send("t", value)
                if number % 50 == 0:
                    # Longer than the linger, so that some timers are set to a time in the past.
                    await asyncio.sleep(0.003)
        async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            received = []
            async for record in consumer:
                received.append(record.value)
                if len(received) == len(values):
                    break
        assert received == values


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_client_works_on_any_event_loop(new_loop: LoopFactory) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(round_trip())


def test_calls_from_another_event_loop_are_refused() -> None:
    place = TopicPartition("t", 0)
    with asyncio.Runner() as own, asyncio.Runner() as other:
        stack = AsyncExitStack()

        async def start() -> tuple[Producer, Consumer, Admin]:
            cluster = await stack.enter_async_context(fake_cluster())
            await stack.enter_async_context(no_leak(cluster))
            cluster.create("t")
            return (
                await stack.enter_async_context(Producer(cluster.bootstrap, linger_ms=60_000)),
                await stack.enter_async_context(Consumer(cluster.bootstrap, group_id="g")),
                await stack.enter_async_context(Admin(cluster.bootstrap)),
            )

        async def refuse(call: Callable[[], Awaitable[object]]) -> None:
            with pytest.raises(ClientClosedError, match="another event loop"):
                await call()

        producer, consumer, admin = own.run(start())
        delivery = own.run(producer.send("t", b"v"))
        calls: list[Callable[[], Awaitable[object]]] = [
            producer.flush,
            producer.close,
            consumer.commit,
            consumer.unsubscribe,
            consumer.close,
            admin.close,
            lambda: consumer.committed([place]),
        ]
        for call in calls:
            other.run(refuse(call))
        # They had no effect.
        own.run(producer.flush())
        assert delivery.result().offset == 0
        own.run(stack.aclose())
