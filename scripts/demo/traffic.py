"""A producer and a consumer that run throughout a failover (edge)."""

import asyncio
import time
from functools import partial
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from scripts.demo.account import Account, Acknowledged
from scripts.demo.console import DemoError

INTERVAL_S: Final = 0.01
"""Time between two records of a partition."""
RETRY_BACKOFF_MS: Final = 20


class Traffic:
    """Writes to and reads from all partitions of a topic. Use with `async with`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.account = Account()
        self._topic = topic
        self._producer = ottla.Producer(
            bootstrap,
            acks="all",
            retry_backoff_ms=RETRY_BACKOFF_MS,
            retry_backoff_max_ms=4 * RETRY_BACKOFF_MS,
        )
        self._consumer = ottla.Consumer(
            bootstrap, auto_offset_reset="earliest", retry_backoff_ms=RETRY_BACKOFF_MS
        )
        self._partitions: list[TopicPartition] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False

    async def __aenter__(self) -> "Traffic":
        await self._producer.start()
        await self._consumer.start()
        self._partitions = await self._consumer.assign_topics(self._topic)
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._producer.close()
        await self._consumer.close()

    async def finish(self, timeout_s: float) -> None:
        """Stop writing; return once all acknowledged records were read, or after the timeout.

        Raises:
            DemoError: the consumer failed.
        """
        self._is_stopping = True
        writer, reader = self._tasks
        await writer
        await self._producer.flush()
        for _ in range(round(timeout_s / INTERVAL_S)):
            if not self.account.missing():
                return
            if reader.done():
                raise DemoError(f"the consumer failed: {reader.exception()}")
            await asyncio.sleep(INTERVAL_S)

    async def _write(self) -> None:
        number = 0
        while not self._is_stopping:
            for where in self._partitions:
                value = b"record %d of %d" % (number, where.partition)
                delivery = await self._producer.send(where.topic, value, partition=where.partition)
                delivery.add_done_callback(partial(self._on_delivered, where, value))
            number += 1
            await asyncio.sleep(INTERVAL_S)

    def _on_delivered(
        self, where: TopicPartition, value: bytes, delivery: "asyncio.Future[ottla.RecordMetadata]"
    ) -> None:
        if delivery.cancelled():
            return
        if error := delivery.exception():
            self.account.failures.append(str(error))
            return
        record = Acknowledged(where, delivery.result().offset, value, time.monotonic())
        self.account.acknowledged.append(record)

    async def _read(self) -> None:
        async for record in self._consumer:
            where = TopicPartition(record.topic, record.partition)
            self.account.reads[where, record.offset, record.value or b""] += 1
