"""`ottla consume` while its topic is deleted or created again."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kafkawire.ids import Offset, TopicPartition
from ottla import Admin, Consumer, NewTopic, Producer
from ottla.cli.command_config import ClusterAccess
from ottla.cli.consume_records import ABSENCE, ConsumeOptions, consume_records, ends_left
from ottla.cli.output_record import OutputFormat, record_writer
from ottla.cli.start_point import Beginning
from ottla.cli.transfer import Transfer
from ottla.client.errors import UnknownTopicError
from tests.conftest import BrokerProcess
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster, fake_cluster
from tests.waiting import until

A0 = TopicPartition("a", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with fake_cluster() as cluster:
        yield cluster


async def test_ends_follow_a_log_that_becomes_shorter(cluster: FakeCluster) -> None:
    (log,) = cluster.create("a")
    log.append_values(b"0", b"1")
    async with Consumer(cluster.bootstrap, **FAST) as consumer:
        ends = {A0: Offset(2)}
        log.append_values(b"2")
        assert await ends_left(consumer, ends) == {A0: Offset(2)}
        (new_log,) = cluster.create("a")
        new_log.append_values(b"new")
        assert await ends_left(consumer, ends) == {A0: Offset(1)}


async def test_a_deleted_topic_has_no_end_to_wait_for(cluster: FakeCluster) -> None:
    cluster.create("a")
    async with Consumer(cluster.bootstrap, **FAST) as consumer:
        ends = await consumer.end_offsets([A0])
        del cluster.logs.topics["a"]
        with pytest.raises(UnknownTopicError, match="a-0"):
            await asyncio.wait_for(ends_left(consumer, ends), 5)


@pytest.mark.parametrize("group", [None, "g"])
async def test_follow_mode_reports_a_deleted_topic_and_reads_its_successor(
    broker_process: BrokerProcess, capfd: pytest.CaptureFixture[str], group: str | None
) -> None:
    topic = f"deleted-{group}"
    output, errors = "", ""

    def has(text: str, *, in_errors: bool = False) -> bool:
        nonlocal output, errors
        more = capfd.readouterr()
        output, errors = output + more.out, errors + more.err
        return text in (errors if in_errors else output)

    async def write_one(value: bytes) -> None:
        # A producer that stays could create the topic again.
        async with Producer(bootstrap) as producer:
            await producer.send_and_wait(topic, value)

    bootstrap = f"127.0.0.1:{broker_process.port}"
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions=1)])
        await write_one(b"before")
        options = ConsumeOptions(
            access=ClusterAccess(bootstrap, {}),
            topics=[topic],
            regex=None,
            partitions=None,
            start=Beginning(),
            group=group,
            max_records=2,
            is_following=True,
        )
        write = record_writer(OutputFormat.VALUE)
        with Transfer("received") as transfer:
            following = asyncio.ensure_future(consume_records(options, write, transfer))
            await until(lambda: has("before\n"), "the first record")
            await admin.delete_topics([topic])
            await until(lambda: has(f"topic {topic} {ABSENCE}", in_errors=True), "the report")
            await admin.create_topics([NewTopic(topic, partitions=1)])
            while not following.done():
                # Its offset may be below the position in the deleted topic.
                await write_one(b"after")
            await following
        assert has("after\n")
    assert errors.count(ABSENCE) == 1
