"""Transactions of Ottla's producer and consumer on a real broker.

`tests/interop/transactions` runs the same tests on Kafka.
"""

import asyncio
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from kafkawire.ids import TopicPartition
from ottla import Admin, Consumer, NewTopic, Producer
from ottla.client.errors import BrokerError, ProducerFencedError, TransactionAbortableError
from tests.conftest import StartBroker
from tests.harness.transaction_checker import violations
from tests.harness.transaction_history import Outcome
from tests.harness.transaction_workload import Workload
from tests.integration.coordination.process import wait_until
from tests.waiting import until

COPY_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.1
CHUNK = 100
MANY = 150
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
}


class Broker(Protocol):
    """A broker of Ottla or of Kafka."""

    @property
    def bootstrap(self) -> str:
        """The address."""


@pytest.fixture
def broker(start_broker: StartBroker) -> Broker:
    return start_broker(overrides=SETTINGS)


async def create(broker: Broker, *topics: str, partitions: int = 1) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1) for name in topics])


async def test_a_second_producer_fences_the_first(broker: Broker) -> None:
    await create(broker, "fenced")
    async with Producer(broker.bootstrap, transactional_id="fenced") as first:
        await first.begin_transaction()
        await first.send_and_wait("fenced", b"zombie")
        async with Producer(broker.bootstrap, transactional_id="fenced") as second:
            with pytest.raises(ProducerFencedError):
                await first.commit_transaction()
            async with second.transaction():
                await second.send("fenced", b"new")
    assert await read(broker, "fenced") == [b"new"]


async def test_a_transaction_that_takes_too_long_is_aborted_by_the_cluster(
    broker: Broker,
) -> None:
    await create(broker, "late")
    async with Producer(
        broker.bootstrap, transactional_id="late", transaction_timeout_ms=1_000
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("late", b"late")
        async with Admin(broker.bootstrap) as admin:
            state = "Ongoing"
            while state != "CompleteAbort":
                await asyncio.sleep(POLL_INTERVAL_S)
                state = (await admin.describe_transaction("late")).state
        with pytest.raises((ProducerFencedError, TransactionAbortableError)):
            await producer.commit_transaction()
    async with (
        Producer(broker.bootstrap, transactional_id="late") as producer,
        producer.transaction(),
    ):
        await producer.send("late", b"next")
    assert await read(broker, "late") == [b"next"]


async def test_a_timeout_above_the_limit_is_refused(broker: Broker) -> None:
    producer = Producer(broker.bootstrap, transactional_id="long", transaction_timeout_ms=2**31 - 1)
    with pytest.raises(BrokerError, match=r"INVALID_TRANSACTION_TIMEOUT.*max.timeout.ms"):
        await producer.start()


async def test_offsets_of_a_lost_membership_are_refused(broker: Broker) -> None:
    await create(broker, "lost")
    async with (
        Producer(broker.bootstrap, transactional_id="lost") as producer,
        Consumer(
            broker.bootstrap,
            group_id="lost",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        async with producer.transaction():
            await producer.send("lost", b"input")
        consumer.subscribe(["lost"])
        assert len(await consumer.fetch_batch(timeout_ms=60_000)) == 1
        metadata = consumer.group_metadata()
        positions = consumer.positions()
        await consumer.unsubscribe()
        async with Consumer(
            broker.bootstrap,
            group_id="lost",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as heir:
            heir.subscribe(["lost"])
            assert len(await heir.fetch_batch(timeout_ms=60_000)) == 1
            with pytest.raises(TransactionAbortableError, match="UNKNOWN_MEMBER_ID"):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction(positions, metadata)
            async with producer.transaction():
                await producer.send_offsets_to_transaction(heir.positions(), heir.group_metadata())
            assert await heir.committed([TopicPartition("lost", 0)]) == heir.positions()


async def read(broker: Broker, topic: str) -> list[bytes]:
    """Return the committed values of a topic, in the order of its partitions."""
    async with Consumer(
        broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = await consumer.assign_topics(topic)
        end = await consumer.end_offsets(places)
        values = []
        while any((consumer.position(place) or 0) < end[place] for place in places):
            values += [each.value or b"" for each in await consumer.fetch_batch(timeout_ms=500)]
    return values


@contextmanager
def copiers(broker: Broker, directory: Path, *names: str) -> Iterator[list[Path]]:
    """Run copying processes; yield the files with their output."""
    processes = []
    paths = [directory / f"copier-{name}.txt" for name in names]
    for name, path in zip(names, paths, strict=True):
        with path.open("w") as output:
            processes.append(start_copier(broker, name, output.fileno()))
    try:
        yield paths
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start_copier(broker: Broker, name: str, output: int) -> "subprocess.Popen[bytes]":
    program = "tests.harness.copier"
    arguments = [sys.executable, "-m", program, broker.bootstrap, name, "source", "target"]
    return subprocess.Popen(arguments, stdout=output, stderr=output)


def test_two_copiers_and_their_rebalances_copy_each_record_once(
    broker: Broker, tmp_path: Path
) -> None:
    """The second copier joins late, and is killed: the first one takes its partitions over."""
    asyncio.run(create(broker, "source", "target", partitions=4))
    sent: list[bytes] = []

    async def write() -> None:
        values = [b"%d" % number for number in range(len(sent), len(sent) + CHUNK)]
        async with Producer(broker.bootstrap) as producer:
            for number, value in enumerate(values):
                await producer.send("source", value, partition=number % 4)
        sent.extend(values)

    async def write_until_copied(path: Path) -> None:
        deadline_s = time.monotonic() + COPY_TIMEOUT_S
        while not has_copied(path):
            assert time.monotonic() < deadline_s, f"nothing was copied: {path}"
            await write()
            await asyncio.sleep(POLL_INTERVAL_S)

    def has_copied(path: Path) -> bool:
        return re.search(r"committed [1-9]", path.read_text()) is not None

    def copied() -> Counter[bytes]:
        return Counter(asyncio.run(read(broker, "target")))

    with copiers(broker, tmp_path, "1") as [first]:
        asyncio.run(write_until_copied(first))
        with copiers(broker, tmp_path, "2") as [second]:
            asyncio.run(write_until_copied(second))
        # The second one was killed, maybe inside a transaction.
        asyncio.run(write())
        wait_until(lambda: copied().keys() >= set(sent), COPY_TIMEOUT_S)
        text = first.read_text()
    assert copied() == Counter(sent), text


def keys_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(3)]


async def test_concurrent_transactions_have_no_anomaly(broker: Broker) -> None:
    await create(broker, "appended", partitions=3)
    workload = Workload(broker.bootstrap, keys_of("appended"), seed=time.time_ns())
    running = asyncio.ensure_future(workload.run(4))
    await until(lambda: len(workload.history.transactions) >= MANY, "transactions")
    workload.stop()
    await running
    await workload.finish()
    outcomes = Counter(each.outcome for each in workload.history.transactions)
    assert outcomes[Outcome.COMMITTED] > 10
    assert outcomes[Outcome.ABORTED] > 1
    assert sum(len(each.reads) for each in workload.history.transactions) > 10
    assert [str(each) for each in violations(workload.history)] == [], workload.seed
