"""confluent-kafka, which is librdkafka, as the features use it (edge)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.interop.clients.features.features import POLL_S, Assigned, Member

TIMEOUT_S = 60.0
GROUP = "unused"


class Confluent:
    """`Producer`, `Consumer` and `AdminClient`."""

    def __init__(self, address: str) -> None:
        self._base: dict[str, str | int | float | bool] = {"bootstrap.servers": address}

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        options = {"acks": "all", "compression.type": codec or "none"}
        await asyncio.to_thread(self._write, topic, values, options)

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._write, topic, values, {"enable.idempotence": True})

    def _write(
        self, topic: str, values: Sequence[bytes], options: Mapping[str, str | bool]
    ) -> None:
        failures: list[object] = []
        producer = ck.Producer({**self._base, **options})
        for value in values:
            producer.produce(
                topic, value, partition=0, on_delivery=lambda error, _: failures.append(error)
            )
        producer.flush(TIMEOUT_S)
        assert failures == [None] * len(values)

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(**{"group.id": GROUP, "isolation.level": level})
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        return await asyncio.to_thread(_take, consumer, count)

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        def run() -> None:
            producer = self._transactional(topic)
            for value in values:
                producer.produce(topic, value, partition=0)
            if commit:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)

        await asyncio.to_thread(run)

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        def run() -> None:
            producer = self._transactional(topic)
            consumer = self._consumer(**{"group.id": group})
            offsets = [ck.TopicPartition(topic, 0, offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction(TIMEOUT_S)
            consumer.close()

        await asyncio.to_thread(run)

    def _transactional(self, topic: str) -> ck.Producer:
        producer = ck.Producer({**self._base, "transactional.id": f"{topic}-id"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        return producer

    @asynccontextmanager
    async def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AsyncIterator[Member]:
        options = {"group.id": group}
        if instance is not None:
            options["group.instance.id"] = instance
        if cooperative:
            options["partition.assignment.strategy"] = "cooperative-sticky"
        consumer = self._consumer(**options)
        consumer.subscribe([topic])
        try:
            yield Assigned(lambda: asyncio.to_thread(consumer.poll, POLL_S), consumer.assignment)
        finally:
            await asyncio.to_thread(consumer.close)

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        consumer = self._consumer(**{"group.id": GROUP})
        asked = [ck.TopicPartition(topic, 0, timestamp_ms)]
        [found] = await asyncio.to_thread(consumer.offsets_for_times, asked, TIMEOUT_S)
        consumer.close()
        return int(found.offset)

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        consumer = self._consumer(**{"group.id": group})
        consumer.subscribe([pattern])
        return await asyncio.to_thread(_take, consumer, count)

    async def create_and_delete(self, topic: str) -> None:
        def run() -> None:
            admin = self._admin()
            _done(admin.create_topics([NewTopic(topic, 1, 1)]))
            assert topic in admin.list_topics(timeout=TIMEOUT_S).topics
            _done(admin.delete_topics([topic]))

        await asyncio.to_thread(run)

    async def configure(self, topic: str) -> None:
        entry = ConfigEntry(
            "retention.ms",
            "1234",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self._admin()
        await asyncio.to_thread(lambda: _done(admin.incremental_alter_configs([resource])))

    async def delete_group(self, group: str) -> None:
        def run() -> None:
            admin = self._admin()
            listed = admin.list_consumer_groups().result(TIMEOUT_S).valid
            assert group in [each.group_id for each in listed]
            _done(admin.delete_consumer_groups([group]))

        await asyncio.to_thread(run)

    async def delete_records(self, topic: str, before: int) -> None:
        asked = [ck.TopicPartition(topic, 0, before)]
        # Held until the end: a client that is garbage answers nothing.
        admin = self._admin()
        await asyncio.to_thread(lambda: _done(admin.delete_records(asked)))

    def _admin(self) -> AdminClient:
        return AdminClient(self._base)

    def _consumer(self, **options: object) -> ck.Consumer:
        return ck.Consumer({**self._base, "auto.offset.reset": "earliest", **options})


def _done(futures: Mapping[Any, Future[Any]]) -> None:
    for each in futures.values():
        each.result(TIMEOUT_S)


def _take(consumer: ck.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"only {len(found)} of {count} arrived"
        assert message.error() is None, message.error()
        found.append(bytes(message.value() or b""))
    consumer.close()
    return found
