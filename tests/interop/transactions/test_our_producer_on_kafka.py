"""Transactions of Ottla's producer on Kafka 3.9: every kind of client reads the same records."""

import asyncio
import signal
import subprocess
import time
from collections import Counter
from typing import NamedTuple

import pytest

from kafkawire.ids import TopicPartition
from ottla import Admin, NewTopic, Producer
from ottla.client.errors import (
    TransactionFatalError,
)
from tests.harness.transaction_checker import violations
from tests.harness.transaction_workload import Workload
from tests.integration.client import test_transactions_with_broker as ours
from tests.integration.client.test_guide import PAGE, TRANSACTIONS, run_examples
from tests.integration.coordination.process import wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker
from tests.interop.transactions.readers import PARTITIONS, agreed, read_all
from tests.waiting import until

# kafka-python loads its schemas with a deprecated function of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")

test_fencing = ours.test_a_second_producer_fences_the_first
test_timeouts = ours.test_a_transaction_that_takes_too_long_is_aborted_by_the_cluster
test_a_limit = ours.test_a_timeout_above_the_limit_is_refused
test_a_lost_membership = ours.test_offsets_of_a_lost_membership_are_refused
test_copiers = ours.test_two_copiers_and_their_rebalances_copy_each_record_once
test_anomalies = ours.test_concurrent_transactions_have_no_anomaly

COPY_TIMEOUT_S = 120.0
COPIED = 2_000
FEW, MANY = 30, 150
POLL_INTERVAL_S = 0.1


class Kafka(NamedTuple):
    """The attribute of a broker process that the shared tests use."""

    bootstrap: str


@pytest.fixture
def broker(kafka: KafkaBroker) -> Kafka:
    return Kafka(kafka.address)


def create(kafka: KafkaBroker, *topics: str, partitions: int = PARTITIONS) -> None:
    async def work() -> None:
        async with Admin(kafka.address) as admin:
            await admin.create_topics([NewTopic(name, partitions, 1) for name in topics])

    asyncio.run(work())


def test_the_programs_of_the_guide(kafka: KafkaBroker) -> None:
    create(kafka, "orders", "invoices", "shouts", partitions=1)
    found = TRANSACTIONS.search(PAGE.read_text())
    assert found is not None
    run_examples(found[0], kafka.address)


def test_every_client_reads_the_same_of_commits_and_aborts(kafka: KafkaBroker) -> None:
    create(kafka, "plain", "packed")

    async def write() -> None:
        async with (
            Producer(kafka.address, transactional_id="mixed") as producer,
            Producer(kafka.address, transactional_id="mixed-2", compression="lz4") as second,
            Producer(kafka.address) as plain,
        ):
            for number in range(40):
                await producer.begin_transaction()
                await second.begin_transaction()
                is_aborted = number % 3 == 0
                await send(producer, "aborted" if is_aborted else "committed", number)
                await plain.send("plain", b"plain", key=b"k", partition=0)
                await send(second, "committed" if is_aborted else "aborted", number)
                await asyncio.gather(producer.flush(), second.flush())
                await (producer if is_aborted else second).abort_transaction()
                await (second if is_aborted else producer).commit_transaction()
            await producer.begin_transaction()
            await send(producer, "open", 0)
            await producer.flush()
            await asyncio.to_thread(check)

    async def send(producer: Producer, kind: str, number: int) -> None:
        for topic in ("plain", "packed"):
            for partition in range(PARTITIONS):
                await producer.send(topic, kind.encode(), key=b"%d" % number, partition=partition)

    def check() -> None:
        rows = agreed(read_all(kafka.address, ("plain", "packed")))
        committed = Counter(row.value for row in rows["read_committed"])
        assert committed == {b"committed": 40 * 2 * PARTITIONS, b"plain": 40}
        assert {b"aborted", b"open"} <= {row.value for row in rows["read_uncommitted"]}

    asyncio.run(write())


async def test_a_killed_broker_loses_and_invents_nothing(kafka: KafkaBroker) -> None:
    await asyncio.to_thread(create, kafka, "crashed", partitions=3)
    keys = [TopicPartition("crashed", number) for number in range(3)]
    workload = Workload(kafka.address, keys, seed=time.time_ns())
    running = asyncio.ensure_future(workload.run(3))
    await until(lambda: len(workload.history.transactions) >= FEW, "transactions")
    kafka.signal(signal.SIGKILL)
    await asyncio.to_thread(restart, kafka)
    before = len(workload.history.transactions)
    await until(lambda: len(workload.history.transactions) >= before + FEW, "transactions")
    workload.stop()
    await running
    await workload.finish()
    assert [str(each) for each in violations(workload.history)] == [], workload.seed


async def test_the_producer_survives_a_restart_of_the_broker(kafka: KafkaBroker) -> None:
    await asyncio.to_thread(create, kafka, "restarted", partitions=1)
    async with Producer(kafka.address, transactional_id="restarted") as producer:
        async with producer.transaction():
            await producer.send("restarted", b"before")
        kafka.signal(signal.SIGKILL)
        await asyncio.to_thread(restart, kafka)
        try:
            async with producer.transaction():
                await producer.send("restarted", b"after")
        except TransactionFatalError as error:
            pytest.fail(f"a restart is no reason to give up: {error}")
    assert await ours.read(Kafka(kafka.address), "restarted") == [b"before", b"after"]


def restart(kafka: KafkaBroker) -> None:
    """Start a killed broker again and wait for it.

    It exits as long as the session of its predecessor lives.
    """
    wait_until(lambda: has_ended(kafka), START_TIMEOUT_S)
    while has_ended(kafka):
        kafka.start()
        wait_until(lambda: kafka.has_started() or has_ended(kafka), START_TIMEOUT_S)


def has_ended(kafka: KafkaBroker) -> bool:
    assert isinstance(kafka.process, subprocess.Popen)
    return kafka.process.poll() is not None
