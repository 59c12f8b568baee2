"""aiokafka, as the features use it (edge)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiokafka
from aiokafka import admin as administration
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.interop.clients.features.features import POLL_MS, Assigned, Member, NotOffered


class Aiokafka:
    """`AIOKafkaProducer`, `AIOKafkaConsumer` and `AIOKafkaAdminClient`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        async with self._producer(acks="all", compression_type=codec) as producer:
            for value in values:
                await producer.send(topic, value, partition=0)

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        async with self._producer(enable_idempotence=True) as producer:
            for value in values:
                await producer.send(topic, value, partition=0)

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        async with self._consumer(auto_offset_reset="earliest", isolation_level=level) as consumer:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            return await _take(consumer, count)

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        async with self._producer(transactional_id=f"{topic}-id") as producer:
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        async with self._producer(transactional_id=f"{topic}-id") as producer:
            await producer.begin_transaction()
            offsets = {aiokafka.TopicPartition(topic, 0): offset}
            await producer.send_offsets_to_transaction(offsets, group)
            await producer.commit_transaction()

    @asynccontextmanager
    async def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AsyncIterator[Member]:
        if cooperative:
            raise NotOffered
        async with self._consumer(group_id=group, group_instance_id=instance) as consumer:
            consumer.subscribe([topic])
            yield Assigned(lambda: consumer.getmany(timeout_ms=POLL_MS), consumer.assignment)

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        where = aiokafka.TopicPartition(topic, 0)
        async with self._consumer() as consumer:
            found = await consumer.offsets_for_times({where: timestamp_ms})
            return int(found[where].offset)

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        async with self._consumer(group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(pattern=pattern)
            return await _take(consumer, count)

    async def create_and_delete(self, topic: str) -> None:
        async with self._admin() as admin:
            await admin.create_topics([administration.NewTopic(topic, 1, 1)])
            assert topic in await admin.list_topics()
            await admin.delete_topics([topic])

    async def configure(self, topic: str) -> None:
        if not hasattr(administration.AIOKafkaAdminClient, "incremental_alter_configs"):
            # Its alter_configs resets all other configs of the topic.
            raise NotOffered
        async with self._admin() as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1234"})
            await admin.incremental_alter_configs([resource])

    async def delete_group(self, group: str) -> None:
        if not hasattr(administration.AIOKafkaAdminClient, "delete_consumer_groups"):
            raise NotOffered
        async with self._admin() as admin:
            assert group in [each[0] for each in await admin.list_consumer_groups()]
            await admin.delete_consumer_groups([group])

    async def delete_records(self, topic: str, before: int) -> None:
        async with self._admin() as admin:
            where = aiokafka.TopicPartition(topic, 0)
            await admin.delete_records({where: RecordsToDelete(before_offset=before)})

    @asynccontextmanager
    async def _producer(self, **options: object) -> AsyncIterator[aiokafka.AIOKafkaProducer]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._address, **options
        ) as producer:
            yield producer

    @asynccontextmanager
    async def _consumer(self, **options: object) -> AsyncIterator[aiokafka.AIOKafkaConsumer]:
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._address, **options
        ) as consumer:
            yield consumer

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[administration.AIOKafkaAdminClient]:
        admin = administration.AIOKafkaAdminClient(bootstrap_servers=self._address)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


async def _take(consumer: aiokafka.AIOKafkaConsumer, count: int) -> list[bytes]:
    return [(await consumer.getone()).value for _ in range(count)]
