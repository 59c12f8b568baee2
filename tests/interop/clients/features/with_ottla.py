"""Ottla's client, as the features use it (edge)."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import ottla
from ottla.client.admin_model import ResourceType
from tests.interop.clients.features.features import POLL_MS, Assigned, Member


class Ottla:
    """`ottla.Producer`, `Consumer` and `Admin`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        async with ottla.Producer(
            self._address, acks="all", compression=codec, enable_idempotence=False
        ) as producer:
            for value in values:
                await producer.send(topic, value, partition=0)

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        async with ottla.Producer(self._address, enable_idempotence=True) as producer:
            for value in values:
                await producer.send(topic, value, partition=0)

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        level: Literal["read_committed", "read_uncommitted"]
        level = "read_committed" if committed else "read_uncommitted"
        async with ottla.Consumer(
            self._address, auto_offset_reset="earliest", isolation_level=level
        ) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0)])
            return await _take(consumer, count)

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        async with ottla.Producer(self._address, transactional_id=f"{topic}-id") as producer:
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        async with ottla.Producer(self._address, transactional_id=f"{topic}-id") as producer:
            await producer.begin_transaction()
            offsets = {ottla.TopicPartition(topic, 0): offset}
            await producer.send_offsets_to_transaction(offsets, group)
            await producer.commit_transaction()

    @asynccontextmanager
    async def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AsyncIterator[Member]:
        async with ottla.Consumer(
            self._address,
            group_id=group,
            group_instance_id=instance,
            assignors=["cooperative-sticky"] if cooperative else ["range"],
        ) as consumer:
            consumer.subscribe([topic])
            yield Assigned(
                lambda: consumer.fetch_batch(10, timeout_ms=POLL_MS), consumer.assignment
            )

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        where = ottla.TopicPartition(topic, 0)
        async with ottla.Consumer(self._address) as consumer:
            found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
        assert found is not None
        return found.offset

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        async with ottla.Consumer(
            self._address, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(pattern=re.compile(pattern))
            return await _take(consumer, count)

    async def create_and_delete(self, topic: str) -> None:
        async with ottla.Admin(self._address) as admin:
            await admin.create_topics([ottla.NewTopic(topic, 1)])
            assert topic in await admin.list_topics()
            await admin.delete_topics([topic])

    async def configure(self, topic: str) -> None:
        async with ottla.Admin(self._address) as admin:
            await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "1234"})

    async def delete_group(self, group: str) -> None:
        async with ottla.Admin(self._address) as admin:
            assert group in [each.group_id for each in await admin.list_groups()]
            await admin.delete_group(group)

    async def delete_records(self, topic: str, before: int) -> None:
        async with ottla.Admin(self._address) as admin:
            await admin.delete_records({ottla.TopicPartition(topic, 0): before})


async def _take(consumer: ottla.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [each.value or b"" for each in await consumer.fetch_batch(100)]
    return found
