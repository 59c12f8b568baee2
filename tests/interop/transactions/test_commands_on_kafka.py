"""`ottla transactions` and `ottla logs dump` against Kafka 3.9."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.records import BatchBuilder
from ottla import Admin, NewTopic
from ottla.cli.failure import EXIT_FAILED, EXIT_FOUND, EXIT_USAGE
from ottla.client.admin_model import ResourceType
from tests.integration.cli.conftest import Ended, RunOttla, run_ottla
from tests.interop.kafka_broker import KafkaBroker

__all__ = ["run_ottla"]

TIMEOUT_S = 60
GHOST = 987_654
VERIFICATION = "transaction.partition.verification.enable"


class Command:
    """`ottla transactions` on one broker."""

    def __init__(self, run: RunOttla, kafka: KafkaBroker) -> None:
        self._run = run
        self._at = ("--bootstrap", kafka.address)

    def __call__(self, *arguments: str) -> Ended:
        return self._run("transactions", *arguments, *self._at)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)


@pytest.fixture
def command(run_ottla: RunOttla, kafka: KafkaBroker) -> Command:
    return Command(run_ottla, kafka)


@pytest.fixture(scope="module")
def opened(kafka: KafkaBroker) -> Iterator[confluent_kafka.Producer]:
    """A producer with an open transaction in `watched-0`."""
    asyncio.run(create(kafka, "watched"))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": "watching"}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("watched", b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    yield producer
    producer.abort_transaction(TIMEOUT_S)


async def create(kafka: KafkaBroker, topic: str) -> None:
    async with Admin(kafka.address) as admin:
        await admin.create_topics([NewTopic(topic, 2, 1)])


@pytest.mark.usefixtures("opened")
def test_transactions_are_listed_and_filtered(command: Command) -> None:
    listed = {each["transactional_id"]: each for each in command.json("list")}
    assert listed["watching"]["state"] == "Ongoing"
    assert [each["transactional_id"] for each in command.json("list", "--state", "Ongoing")] == [
        "watching"
    ]
    assert command.json("list", "--state", "Empty") == []
    assert command.json("list", "--longer-than", "3600") == []
    assert "Ongoing" in command("list").stdout
    ended = command("list", "--state", "Nonsense")
    assert (ended.returncode, "Nonsense" in ended.stderr) == (EXIT_USAGE, True)


@pytest.mark.usefixtures("opened")
def test_a_transaction_is_described(command: Command) -> None:
    described = command.json("describe", "watching")
    assert described["partitions"] == [{"topic": "watched", "partition": 0}]
    assert (described["state"], described["coordinator_id"]) == ("Ongoing", 1)
    assert "partitions: watched-0" in command("describe", "watching").stdout
    ended = command("describe", "nobody")
    assert (ended.returncode, "TRANSACTIONAL_ID_NOT_FOUND" in ended.stderr) == (EXIT_FAILED, True)


@pytest.mark.usefixtures("opened")
def test_producers_of_a_partition_are_described(command: Command) -> None:
    (producer,) = command.json("describe-producers", "watched:0")
    assert producer["transaction_start_offset"] == 0
    assert command.json("describe-producers", "watched:0", "--broker", "1") == [producer]
    assert command.json("describe-producers", "watched:1") == []
    assert "transaction start" in command("describe-producers", "watched:0").stdout
    assert command("describe-producers", "watched").returncode == EXIT_USAGE
    assert command("describe-producers", "watched:7").returncode == EXIT_FAILED


@pytest.mark.usefixtures("opened")
def test_a_live_transaction_is_not_hanging(command: Command) -> None:
    ended = command("find-hanging", "--max-transaction-timeout", "0")
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 1)


def test_a_hanging_transaction_is_found_and_aborted(kafka: KafkaBroker, command: Command) -> None:
    asyncio.run(haunt(kafka))
    at_once = ("--max-transaction-timeout", "0", "--topic", "haunted:0")
    assert command("find-hanging", "--topic", "haunted").returncode == 0, "it is young"
    assert command("find-hanging", *at_once).returncode == EXIT_FOUND
    (found,) = command.json("find-hanging", *at_once)
    assert (found["producer_id"], found["transactional_id"]) == (GHOST, None)
    assert command("abort", "haunted:0").returncode == EXIT_USAGE
    assert command("abort", "haunted:0", "--start-offset", "77").returncode == EXIT_FAILED
    assert command.json("abort", "haunted:0", "--start-offset", "0") == {"aborted": ["haunted:0"]}
    assert command("find-hanging", *at_once).returncode == 0
    by_id = ("--producer-id", str(GHOST), "--producer-epoch", "0")
    assert command("abort", "haunted:0", *by_id).returncode == 0, "a second marker does no harm"


async def haunt(kafka: KafkaBroker) -> None:
    """Open a transaction that no coordinator knows."""
    await create(kafka, "haunted")
    async with Admin(kafka.address) as admin:
        await admin.alter_configs(ResourceType.BROKER, "1", {VERIFICATION: "false"})
        await admin.describe_topics(["haunted"])
        builder = BatchBuilder(
            producer_id=GHOST, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        builder.append(time.time_ns() // 1_000_000, None, b"boo", ())
        request = ProduceRequest(
            transactional_id="ghost",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name="haunted",
                    partition_data=[PartitionProduceData(index=0, records=builder.build())],
                )
            ],
        )
        cluster = admin._started()
        [leader] = cluster.metadata.brokers
        async with asyncio.timeout(TIMEOUT_S):
            # The broker learns of its new config a moment after the response.
            code = None
            while code != ErrorCode.NONE:
                response = await cluster.request(leader, request, ProduceResponse)
                [topic] = response.responses
                [result] = topic.partition_responses
                code = result.error_code
        await admin.alter_configs(ResourceType.BROKER, "1", {VERIFICATION: None})


@pytest.mark.usefixtures("opened")
def test_the_log_of_transactions_is_decoded(run_ottla: RunOttla, kafka: KafkaBroker) -> None:
    paths = sorted(kafka.log_directory.glob("__transaction_state-*/*.log"))
    dumped = run_ottla("logs", "dump", "--deep", *paths)
    assert dumped.returncode == 0, dumped.stderr
    assert "transactional id watching, Ongoing, producer " in dumped.stdout
    lines = run_ottla("logs", "dump", "--deep", "--json", *paths).stdout.splitlines()
    states = [each for each in map(json.loads, lines) if each.get("state") == "Ongoing"]
    assert [each["transactional_id"] for each in states] == ["watching"]


def test_markers_and_aborted_transactions_are_dumped(
    run_ottla: RunOttla, kafka: KafkaBroker
) -> None:
    (directory,) = kafka.log_directory.glob("haunted-0")
    records = run_ottla("logs", "dump", "--deep", *directory.glob("*.log")).stdout
    assert "abort marker of coordinator epoch 0" in records
    index = run_ottla("logs", "dump", "--json", *directory.glob("*.txnindex")).stdout
    (entry,) = [each for each in map(json.loads, index.splitlines()) if "producer_id" in each]
    assert (entry["producer_id"], entry["first_offset"], entry["last_offset"]) == (GHOST, 0, 1)
