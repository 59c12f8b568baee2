"""Members of a group against Ottla's broker in a process of its own."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
import pytest_asyncio

from kafkawire.ids import LeaderEpoch, Offset
from ottla import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from ottla.client.consumer.group.group_config import ASSIGNORS, AssignorName
from ottla.client.errors import (
    BrokerError,
    CommitFailedError,
    ConfigurationError,
    NotInGroupError,
    RebalanceFailedError,
    UnknownTopicError,
)
from ottla.client.offset import CommittedOffset
from tests.conftest import READY_EVENT, WITHOUT_RETENTION, BrokerProcess
from tests.integration.client.client_support import cancel_after, other_tasks
from tests.waiting import until

PARTITIONS = 6
PATIENCE_S = 60.0
POLL_INTERVAL_S = 0.05
AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
ALL = [TopicPartition("t", index) for index in range(PARTITIONS)]
T0 = ALL[0]


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that completes the first rebalance once the first member has joined."""
    overrides = {**AT_ONCE, **WITHOUT_RETENTION}
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), overrides)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
        assert broker.stop() == 0, broker.log_tail()
    finally:
        broker.kill()


@pytest_asyncio.fixture
async def broker_process(shared_broker: BrokerProcess) -> AsyncIterator[BrokerProcess]:
    """The broker, which has neither topics of users nor groups before each test."""
    yield shared_broker
    async with Admin(shared_broker.bootstrap) as admin:
        if names := await admin.list_topics():
            await admin.delete_topics(names)
        async with asyncio.timeout(PATIENCE_S):
            while groups := await admin.list_groups():
                group_id = groups[0].group_id
                # Static members stay until the end of their sessions.
                with suppress(BrokerError):
                    members = (await admin.describe_group(group_id)).members
                    await admin.remove_members(group_id, members)
                    await admin.delete_group(group_id)
                await asyncio.sleep(POLL_INTERVAL_S)


def member(broker: BrokerProcess, **settings: Any) -> Consumer:
    """Return a member of group g with short intervals and timeouts."""
    chosen: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        # Far more than any pause of this process.
        "session_timeout_ms": 30_000,
        "auto_commit_interval_ms": 50,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 50,
    } | settings
    return Consumer(broker.bootstrap, **chosen)


def at(offset: int, leader_epoch: int = -1, metadata: str = "") -> CommittedOffset:
    """Return a committed offset."""
    return CommittedOffset(Offset(offset), LeaderEpoch(leader_epoch), metadata)


async def fill(broker: BrokerProcess, count: int, *, partitions: int = PARTITIONS) -> None:
    """Create topic t with `count` records in every partition; values are their offsets."""
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topics([NewTopic("t", partitions=partitions)])
    await append(broker, count, partitions=partitions)


async def append(
    broker: BrokerProcess, count: int, *, first: int = 0, partitions: int = PARTITIONS
) -> None:
    """Write `count` more records into every partition."""
    async with Producer(broker.bootstrap) as producer:
        for partition in range(partitions):
            for number in range(first, first + count):
                await producer.send("t", b"%d" % number, partition=partition)


def places(records: Iterable[ConsumerRecord]) -> Counter[tuple[int, int]]:
    """Return the number of reads of each (partition, offset)."""
    return Counter((record.partition, record.offset) for record in records)


def every_place(count: int) -> Counter[tuple[int, int]]:
    """Return each (partition, offset) of the topic once."""
    return Counter((index, offset) for index in range(PARTITIONS) for offset in range(count))


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Read exactly `count` records."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.fetch_batch(count - len(records))
    return records


class Reader:
    """Reads in a task of its own, and keeps the records."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.records: list[ConsumerRecord] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for record in self.consumer:
            self.records.append(record)

    async def stop(self) -> None:
        await self.consumer.close()
        await self.task


async def shared(*consumers: Consumer) -> None:
    """Wait until the consumers hold all partitions, evenly divided."""
    fair = PARTITIONS // len(consumers)

    def is_shared() -> bool:
        held = [each.assignment() for each in consumers]
        return sorted(chain(*held)) == ALL and {len(each) for each in held} == {fair}

    await until(is_shared, "an even assignment")


async def test_the_next_member_continues_after_a_lone_one(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 10)
    async with member(broker_process) as consumer:
        consumer.subscribe(["t"])
        assert places(await read(consumer, 60)) == every_place(10)
        assert consumer.subscription() == {"t"}
    await append(broker_process, 1, first=10)
    async with member(broker_process) as consumer:
        consumer.subscribe(["t"])
        assert {record.value for record in await read(consumer, PARTITIONS)} == {b"10"}
        assert await consumer.fetch_batch(1, timeout_ms=50) == []


async def test_a_topic_that_is_created_again_is_read_from_its_start(
    broker_process: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(broker_process, 3, partitions=1)
    async with Admin(broker_process.bootstrap) as admin:
        async with member(broker_process, metadata_max_age_ms=50) as consumer:
            consumer.subscribe(["t"])
            assert places(await read(consumer, 3)) == {(0, offset): 1 for offset in range(3)}
            await consumer.commit()
            await admin.delete_topics(["t"])
            await fill(broker_process, 5, partitions=1)
            await until(lambda: "topic.recreated" in caplog.text, "the consumer to know it")
            records = await read(consumer, 5)
            assert places(records) == {(0, offset): 1 for offset in range(5)}
            await append(broker_process, 1, first=5, partitions=1)
            # The next read makes the five records processed.
            assert places(await read(consumer, 1)) == {(0, 5): 1}
        assert (await admin.list_group_offsets("g"))[T0].offset == 6


@pytest.mark.parametrize("assignor", list(ASSIGNORS))
async def test_members_rebalance_without_loss_or_duplicates(
    broker_process: BrokerProcess, assignor: AssignorName
) -> None:
    await fill(broker_process, 50)
    async with member(broker_process, assignors=[assignor]) as first:
        first.subscribe(["t"])
        one = Reader(first)
        await until(lambda: len(one.records) >= 20, "records")
        second = member(broker_process, assignors=[assignor])
        await second.start()
        second.subscribe(["t"])
        two = Reader(second)
        await shared(first, second)
        await append(broker_process, 50, first=50)
        await until(lambda: len(one.records) + len(two.records) == 600, "all records")
        await two.stop()
        await shared(first)
        await append(broker_process, 10, first=100)
        await until(lambda: len(one.records) + len(two.records) == 660, "the remaining records")
        await one.stop()
    assert places(one.records + two.records) == every_place(110)


async def test_callbacks_are_called_in_order_and_may_commit(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 2)
    notified: list[tuple[str, list[TopicPartition]]] = []
    async with member(broker_process, enable_auto_commit=False) as consumer:

        async def on_revoked(partitions: Sequence[TopicPartition]) -> None:
            await consumer.commit()
            notified.append(("revoked", sorted(partitions)))

        def on_assigned(partitions: Sequence[TopicPartition]) -> None:
            notified.append(("assigned", sorted(partitions)))
            consumer.seek(T0, 1)

        consumer.subscribe(["t"], on_assigned=on_assigned, on_revoked=on_revoked)
        records = await read(consumer, 11)
        assert (0, 0) not in places(records)
    assert notified == [("assigned", ALL), ("revoked", ALL)]
    async with member(broker_process) as other:
        assert await other.committed(ALL) == {each: at(2, 0) for each in ALL}


async def test_cooperative_members_keep_partitions(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1)
    notified: list[tuple[str, int]] = []
    cooperative: dict[str, Any] = {"assignors": ["cooperative-sticky"]}
    async with (
        member(broker_process, **cooperative) as first,
        member(broker_process, **cooperative) as second,
    ):
        first.subscribe(
            ["t"],
            on_assigned=lambda partitions: notified.append(("assigned", len(partitions))),
            on_revoked=lambda partitions: notified.append(("revoked", len(partitions))),
        )
        await shared(first)
        before = first.assignment()
        second.subscribe(["t"])
        await shared(first, second)
        assert set(first.assignment()) < set(before)
        changes = [each for each in notified if each != ("assigned", 0)]
        assert changes == [("assigned", PARTITIONS), ("revoked", PARTITIONS // 2)]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_a_record_in_hand_is_neither_committed_nor_taken_away(
    broker_process: BrokerProcess, assignor: AssignorName
) -> None:
    await fill(broker_process, 5, partitions=1)
    async with (
        member(broker_process, group_instance_id="b", assignors=[assignor]) as first,
        member(broker_process, group_instance_id="a", assignors=[assignor]) as second,
    ):
        revoked: list[TopicPartition] = []
        first.subscribe(["t"], on_revoked=revoked.extend)
        seen = []
        async for record in first:
            seen.append(record.offset)
            if record.offset == 2:
                break
        second.subscribe(["t"])
        first.subscribe(["u"], on_revoked=revoked.extend)
        # Record 2 is in hand: auto-commit covers only the records before it.
        async with asyncio.timeout(PATIENCE_S):
            while (await first.committed([T0]))[T0] != at(2, 0):
                continue
        assert revoked == []
        assert second.assignment() == []
        # The next read marks it as processed.
        assert await first.fetch_batch(1, timeout_ms=200) == []
        assert [record.offset for record in await read(second, 2)] == [3, 4]
        assert revoked == [T0]


async def test_the_record_of_a_failing_body_is_read_again(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 5, partitions=1)

    async def fail_at_three() -> None:
        async with member(broker_process) as consumer:
            consumer.subscribe(["t"])
            async for record in consumer:
                if record.offset == 3:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_three()
    async with member(broker_process) as consumer:
        consumer.subscribe(["t"])
        assert [record.offset for record in await read(consumer, 2)] == [3, 4]


async def test_the_batch_of_a_failing_body_is_read_again(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 5, partitions=1)

    async def fail_in_the_second_batch() -> None:
        async with member(broker_process) as consumer:
            consumer.subscribe(["t"])
            await read(consumer, 2)
            await consumer.fetch_batch(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_second_batch()
    async with member(broker_process) as consumer:
        consumer.subscribe(["t"])
        assert [record.offset for record in await read(consumer, 3)] == [2, 3, 4]


async def test_a_static_member_gets_its_partitions_back(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1)
    notified: list[TopicPartition] = []
    async with member(broker_process, group_instance_id="a") as first:
        first.subscribe(["t"], on_revoked=notified.extend)
        second = member(broker_process, group_instance_id="b")
        await second.start()
        second.subscribe(["t"])
        await shared(first, second)
        notified.clear()
        held = second.assignment()
        await second.close()
        async with member(broker_process, group_instance_id="b") as again:
            again.subscribe(["t"])
            await until(lambda: again.assignment() == held, "the same partitions")
        assert notified == []


async def test_an_idle_member_leaves_and_joins_again(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 2, partitions=1)
    lost: list[TopicPartition] = []
    async with (
        member(broker_process, max_poll_interval_ms=300) as idle,
        member(broker_process) as other,
    ):
        idle.subscribe(["t"], on_lost=lost.extend)
        assert [record.offset for record in await read(idle, 1)] == [0]
        other.subscribe(["t"])
        # The idle member had record 0 in hand, so another member reads it again.
        assert [record.offset for record in await read(other, 2)] == [0, 1]
        with pytest.raises(CommitFailedError):
            await idle.commit({T0: 1})
        assert await idle.fetch_batch(1, timeout_ms=500) == []
        assert lost == [T0]


async def test_two_members_with_one_instance_id_are_refused(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1)
    async with (
        member(broker_process, group_instance_id="a") as first,
        member(broker_process, group_instance_id="a") as second,
    ):
        first.subscribe(["t"])
        await shared(first)
        second.subscribe(["t"])
        with pytest.raises(BrokerError, match="group_instance_id"):
            await read(first, 1_000)


async def test_added_partitions_are_assigned(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1, partitions=1)
    async with member(broker_process, metadata_max_age_ms=100) as consumer:
        consumer.subscribe(["t"])
        await until(lambda: consumer.assignment() == [T0], "the only partition")
        async with Admin(broker_process.bootstrap) as admin:
            await admin.create_partitions({"t": 2})
        await until(lambda: len(consumer.assignment()) == 2, "the new partition")


async def test_a_topic_created_later_is_assigned(broker_process: BrokerProcess) -> None:
    async with member(broker_process, metadata_max_age_ms=100) as consumer:
        consumer.subscribe(["t"])
        assert await consumer.fetch_batch(1, timeout_ms=200) == []
        await fill(broker_process, 1)
        assert places(await read(consumer, PARTITIONS)) == every_place(1)


async def test_a_manual_assignment_starts_at_the_commit(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 5, partitions=2)
    async with member(broker_process, enable_auto_commit=False) as earlier:
        earlier.assign([T0])
        await earlier.commit({T0: at(3, metadata="note")})
    async with member(broker_process, enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        assert (await consumer.committed([T0, ALL[1]])) == {
            T0: at(3, metadata="note"),
            ALL[1]: None,
        }
        assert [record.offset for record in await read(consumer, 2)] == [3, 4]
        with pytest.raises(NotInGroupError, match="by hand"):
            consumer.subscribe(["t"])


async def test_a_commit_to_a_topic_that_does_not_exist_fails_soon(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 5)
    gone = TopicPartition("gone", 0)
    async with member(broker_process, enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        with pytest.raises(UnknownTopicError, match="gone-0"):
            await asyncio.wait_for(consumer.commit({gone: at(1), T0: at(3)}), 20)
        assert (await consumer.committed([T0]))[T0] == at(3)
    async with Admin(broker_process.bootstrap) as admin:
        with pytest.raises(UnknownTopicError, match="gone-0"):
            await asyncio.wait_for(admin.alter_group_offsets("g", {gone: 1}), 20)


async def test_the_offsets_of_many_partitions_take_several_requests(
    broker_process: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As with thousands of partitions, of which a broker takes 10,000 in one request.
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 2)
    await fill(broker_process, 1)
    wanted = {each: at(each.partition) for each in ALL}
    async with member(broker_process, enable_auto_commit=False) as consumer:
        consumer.assign(ALL)
        await consumer.commit(wanted)
        assert await consumer.committed(ALL) == wanted
        later = {each: at(each.partition + 1) for each in ALL}
        # In the first of the requests.
        gone = {TopicPartition("gone", 0): at(1)}
        with pytest.raises(UnknownTopicError, match="gone-0"):
            await asyncio.wait_for(consumer.commit(gone | later), 20)
        assert await consumer.committed(ALL) == later
        assert await consumer.end_offsets(ALL) == dict.fromkeys(ALL, 1)
    async with Admin(broker_process.bootstrap) as admin:
        await admin.delete_group_offsets("g", ALL)
        assert await admin.list_group_offsets("g") == {}


async def test_an_unknown_topic_does_not_hide_that_nothing_was_committed(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 5)
    async with member(broker_process) as consumer, Admin(broker_process.bootstrap) as admin:
        consumer.subscribe(["t"])
        await read(consumer, 1)
        offsets = {TopicPartition("gone", 0): 1, T0: 3}
        with pytest.raises(CommitFailedError):
            await asyncio.wait_for(admin.alter_group_offsets("g", offsets), 20)


async def test_unsubscribing_leaves_the_group(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1)
    async with member(broker_process) as first, member(broker_process) as second:
        first.subscribe(["t"])
        second.subscribe(["t"])
        await shared(first, second)
        with pytest.raises(NotInGroupError, match="unsubscribe"):
            first.assign([T0])
        await first.unsubscribe()
        assert first.assignment() == []
        await shared(second)
        first.assign([T0])
        assert [record.offset for record in await read(first, 1)] == [0]


async def test_the_next_read_raises_the_error_of_a_callback(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 1)

    def on_assigned(_: Sequence[TopicPartition]) -> None:
        raise ZeroDivisionError

    async with member(broker_process) as consumer:
        consumer.subscribe(["t"], on_assigned=on_assigned)
        with pytest.raises(RebalanceFailedError) as raised:
            await read(consumer, 1)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        consumer.subscribe(["t"])
        await read(consumer, PARTITIONS)


async def test_misuse_is_refused_with_a_remedy(broker_process: BrokerProcess) -> None:
    async with Consumer(broker_process.bootstrap) as alone:
        with pytest.raises(NotInGroupError, match="group_id"):
            alone.subscribe(["t"])
        with pytest.raises(NotInGroupError, match="group_id"):
            await alone.commit()
    async with member(broker_process) as consumer:
        with pytest.raises(ConfigurationError, match=r"use \['t'\]"):
            consumer.subscribe("t")
        with pytest.raises(ConfigurationError, match="empty"):
            consumer.subscribe([])
        with pytest.raises(ConfigurationError, match="a topic's name must not be empty"):
            consumer.subscribe(["t", ""])
        with pytest.raises(ValueError, match="a whole number from 0"):
            await consumer.commit({T0: -1})


async def test_close_does_not_wait_for_a_broker_that_hangs(broker_process: BrokerProcess) -> None:
    await fill(broker_process, 1)
    consumer = member(broker_process)
    await consumer.start()
    consumer.subscribe(["t"])
    await read(consumer, PARTITIONS)
    broker_process.process.send_signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(20):
            await consumer.close(timeout_ms=50)
    finally:
        broker_process.process.send_signal(signal.SIGCONT)


async def test_a_callback_may_close_the_consumer_that_is_being_closed(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 1)
    consumer = member(broker_process)
    await consumer.start()
    revoked: list[TopicPartition] = []

    async def on_revoked(partitions: Sequence[TopicPartition]) -> None:
        await consumer.close()
        revoked.extend(partitions)

    consumer.subscribe(["t"], on_revoked=on_revoked)
    await read(consumer, PARTITIONS)
    async with asyncio.timeout(20):
        await consumer.close()
    assert sorted(revoked) == ALL


async def test_the_close_of_a_member_can_be_cancelled_at_any_point(
    broker_process: BrokerProcess,
) -> None:
    await fill(broker_process, 1)
    before = other_tasks()
    for steps in range(12):
        consumer = member(broker_process, group_id=f"cancelled-{steps}")
        await consumer.start()
        consumer.subscribe(["t"])
        await read(consumer, 1)
        await cancel_after(consumer.close(), steps)
        await consumer.close()
        await until(lambda: other_tasks() == before, "the end of the member's tasks")
