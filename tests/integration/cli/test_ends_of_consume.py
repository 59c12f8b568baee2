"""`ottla consume` while its topic is deleted or created again."""

import asyncio
from collections.abc import AsyncIterator, Iterable

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
from tests.waiting import DEADLINE_S, until

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
            await asyncio.wait_for(ends_left(consumer, ends), DEADLINE_S)


async def test_records_written_meanwhile_are_left_to_the_next_reader_of_the_group(
    broker_process: BrokerProcess,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap = f"127.0.0.1:{broker_process.port}"
    end_offsets = Consumer.end_offsets
    place = TopicPartition("grows", 0)
    meanwhile = [b"3", b"4"]
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics([NewTopic("grows", partitions=1)])
        for value in [b"0", b"1", b"2"]:
            await producer.send_and_wait("grows", value)

        async def ends_before_more(
            consumer: Consumer, partitions: Iterable[TopicPartition]
        ) -> dict[TopicPartition, Offset]:
            ends = await end_offsets(consumer, partitions)
            while meanwhile:
                await producer.send_and_wait("grows", meanwhile.pop(0))
            return ends

        monkeypatch.setattr(Consumer, "end_offsets", ends_before_more)
        for expected, end in (("0\n1\n2\n", 3), ("3\n4\n", 5)):
            async with asyncio.timeout(60):
                await consume_records(
                    ConsumeOptions(
                        access=ClusterAccess(bootstrap, {}),
                        topics=["grows"],
                        regex=None,
                        partitions=None,
                        start=Beginning(),
                        group="of-grows",
                        max_records=None,
                        is_following=False,
                    ),
                    record_writer(OutputFormat.VALUE),
                    Transfer("received"),
                )
            assert capfd.readouterr().out == expected
            committed = await admin.list_group_offsets("of-grows")
            assert committed[place].offset == end


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
