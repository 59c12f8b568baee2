"""kafka-python, as the features use it (edge)."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.interop.clients.features.features import POLL_MS, Assigned, Member

with warnings.catch_warnings():
    # It loads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

TIMEOUT_S = 60.0


class KafkaPython:
    """`KafkaProducer`, `KafkaConsumer` and `KafkaAdminClient`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        options = {"acks": "all", "compression_type": codec, "enable_idempotence": False}
        await asyncio.to_thread(self._write, topic, values, options)

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._write, topic, values, {"enable_idempotence": True})

    def _write(self, topic: str, values: Sequence[bytes], options: Mapping[str, object]) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self._address, **options)
        futures = [producer.send(topic, value, partition=0) for value in values]
        producer.flush(TIMEOUT_S)
        for each in futures:
            each.get(TIMEOUT_S)
        producer.close(TIMEOUT_S)

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(auto_offset_reset="earliest", isolation_level=level)
        consumer.assign([kafka.TopicPartition(topic, 0)])
        return await asyncio.to_thread(_take, consumer, count)

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        def run() -> None:
            producer = self._transactional(topic)
            for value in values:
                producer.send(topic, value, partition=0)
            producer.flush(TIMEOUT_S)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            producer.close(TIMEOUT_S)

        await asyncio.to_thread(run)

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        def run() -> None:
            producer = self._transactional(topic)
            offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, group)
            producer.commit_transaction()
            producer.close(TIMEOUT_S)

        await asyncio.to_thread(run)

    def _transactional(self, topic: str) -> kafka.KafkaProducer:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._address, transactional_id=f"{topic}-id"
        )
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    @asynccontextmanager
    async def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AsyncIterator[Member]:
        consumer = self._consumer(
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=[
                CooperativeStickyAssignor if cooperative else RangePartitionAssignor
            ],
        )
        consumer.subscribe([topic])
        try:
            yield Assigned(lambda: asyncio.to_thread(consumer.poll, POLL_MS), consumer.assignment)
        finally:
            await asyncio.to_thread(consumer.close)

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        where = kafka.TopicPartition(topic, 0)
        consumer = self._consumer()
        found = await asyncio.to_thread(consumer.offsets_for_times, {where: timestamp_ms})
        consumer.close()
        return int(found[where].offset)

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        consumer = self._consumer(group_id=group, auto_offset_reset="earliest")
        consumer.subscribe(pattern=pattern)
        return await asyncio.to_thread(_take, consumer, count)

    async def create_and_delete(self, topic: str) -> None:
        def run() -> None:
            admin = self._admin()
            admin.create_topics([NewTopic(topic, 1, 1)])
            assert topic in admin.list_topics()
            admin.delete_topics([topic])
            admin.close()

        await asyncio.to_thread(run)

    async def configure(self, topic: str) -> None:
        def run() -> None:
            admin = self._admin()
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1234"})
            admin.alter_configs([resource], incremental=True)
            admin.close()

        await asyncio.to_thread(run)

    async def delete_group(self, group: str) -> None:
        def run() -> None:
            admin = self._admin()
            assert group in repr(admin.list_groups())
            admin.delete_groups([group])
            admin.close()

        await asyncio.to_thread(run)

    async def delete_records(self, topic: str, before: int) -> None:
        def run() -> None:
            admin = self._admin()
            admin.delete_records({kafka.TopicPartition(topic, 0): before})
            admin.close()

        await asyncio.to_thread(run)

    def _admin(self) -> kafka.KafkaAdminClient:
        return kafka.KafkaAdminClient(bootstrap_servers=self._address)

    def _consumer(self, **options: object) -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(bootstrap_servers=self._address, **options)


def _take(consumer: kafka.KafkaConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        polled = consumer.poll(int(TIMEOUT_S * 1000))
        assert polled, f"only {len(found)} of {count} arrived"
        found += [each.value for records in polled.values() for each in records]
    consumer.close()
    return found
