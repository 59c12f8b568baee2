"""The consumer against a scripted cluster: its records, positions and errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf, nan
from typing import Any

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.fetch import TOPIC_IDS_SINCE, AbortedTransaction
from kafkawire.records import (
    BatchBuilder,
    Codec,
    ControlType,
    TimestampType,
    build_control_batch,
    read_header,
    set_log_append_time,
    write_header,
)
from ottla import Consumer, ConsumerRecord, TopicPartition
from ottla.client.consumer import fetcher, positions
from ottla.client.errors import (
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    ConsumeError,
    CorruptRecordsError,
    LogTruncatedError,
    NotAssignedError,
    NotAuthorizedError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from tests.integration.client.client_support import FAST, raising_once
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    LoseResponse,
    Omit,
    Refuse,
    RefuseWhole,
)
from tests.integration.client.fake_log import FakePartition
from tests.waiting import until

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@asynccontextmanager
async def reading(
    cluster: FakeCluster, *partitions: TopicPartition, **settings: Any
) -> AsyncIterator[Consumer]:
    """A consumer of these partitions (T0), by default from the start of the log."""
    settings = {"auto_offset_reset": "earliest", **FAST, **settings}
    async with Consumer(cluster.bootstrap, **settings) as consumer:
        consumer.assign(partitions or [T0])
        yield consumer


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Return exactly `count` records."""
    records: list[ConsumerRecord] = []
    # Less than the timeouts of the consumer, which would hide a request that waits too long.
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await consumer.fetch_batch(count - len(records))
    return records


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    return [record.value for record in await take(consumer, count)]


@pytest.mark.parametrize("codec", list(Codec))
async def test_records_are_read_as_they_were_written(cluster: FakeCluster, codec: Codec) -> None:
    (log,) = cluster.create("t")
    log.leader_epoch = 5
    builder = BatchBuilder(codec)
    builder.append(1_000, b"k", b"v", (("h", b"1"), ("none", None)))
    builder.append(999, None, None)
    log.append(builder.build())
    async with reading(cluster) as consumer:
        first, second = await take(consumer, 2)
    assert first == ConsumerRecord(
        topic="t",
        partition=0,
        offset=first.offset,
        timestamp_ms=1_000,
        key=b"k",
        value=b"v",
        headers=(("h", b"1"), ("none", None)),
        timestamp_type=TimestampType.CREATE_TIME,
        leader_epoch=first.leader_epoch,
    )
    assert (first.offset, first.leader_epoch) == (0, 5)
    assert (second.offset, second.timestamp_ms, second.key, second.value) == (1, 999, None, None)


async def test_iteration_waits_for_new_records_and_continues_after_a_break(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1", b"2")
    async with reading(cluster) as consumer:
        async for record in consumer:
            if record.offset == 1:
                break
        assert consumer.position(T0) == 2
        rest = []
        async for record in consumer:
            rest.append(record.value)
            if record.offset == 2:
                log.append_values(b"3")
                cluster.announce()
            if record.offset == 3:
                break
    assert rest == [b"2", b"3"]


async def test_iteration_ends_when_the_consumer_is_closed(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with reading(cluster) as consumer:

        async def read_all() -> list[ConsumerRecord]:
            return [record async for record in consumer]

        iterating = asyncio.ensure_future(read_all())
        await cluster.wait_for(ApiKey.FETCH)
        await consumer.close()
        assert await iterating == []
        with pytest.raises(ClientClosedError):
            await consumer.fetch_batch()


async def test_a_close_while_a_record_is_handled_ends_the_iteration(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    handled = []
    async with reading(cluster) as consumer:
        async for record in consumer:
            handled.append(record.offset)
            await consumer.close()
        assert (handled, consumer.position(T0)) == ([0], 1)
        with pytest.raises(ClientClosedError):
            await anext(aiter(consumer))


async def test_a_consumer_that_was_closed_does_not_connect(cluster: FakeCluster) -> None:
    consumer = Consumer(cluster.bootstrap)
    await consumer.close()
    with pytest.raises(ClientClosedError):
        await consumer.start()
    # Nothing would close the connection.
    assert cluster.seen(ApiKey.METADATA) == []


async def test_every_close_waits_until_the_consumer_is_closed(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with reading(cluster) as consumer:
        await cluster.wait_for(ApiKey.FETCH)
        first = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0)
        assert not first.done()
        await consumer.close()
        # A program that ends now would cancel a close that had not ended.
        assert first.done()


async def test_the_time_limit_of_a_read_does_not_cut_off_a_deserializer(
    cluster: FakeCluster,
) -> None:
    """Otherwise each read would begin again, and partition streams would stand still."""
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")

    async def decode(data: bytes | None) -> bytes | None:
        for _ in range(5):
            await asyncio.sleep(0)
        return data

    async with reading(cluster, value_deserializer=decode) as consumer:
        await until(lambda: consumer._buffer.size_bytes > 0, "the records")
        records = await consumer.fetch_batch(timeout_ms=0)
        assert await consumer.fetch_batch(timeout_ms=0) == []
    assert [record.value for record in records] == [b"0", b"1"]


async def test_a_batch_has_at_most_max_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    for start in range(0, 30, 10):
        log.append_values(*[b"%d" % number for number in range(start, start + 10)])
    async with reading(cluster) as consumer:
        assert await values(consumer, 4) == [b"0", b"1", b"2", b"3"]
        assert consumer.position(T0) == 4
        assert len(await consumer.fetch_batch(100)) == 26
        assert await consumer.fetch_batch(100, timeout_ms=10) == []


@pytest.mark.parametrize("value", [1.5, nan, inf, -1, True, "5"], ids=repr)
async def test_arguments_of_a_read_are_named_at_the_call(cluster: FakeCluster, value: Any) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"v")
    async with reading(cluster) as consumer:
        for max_records in (value, 0):
            with pytest.raises(ConfigurationError, match="max_records must be "):
                await consumer.fetch_batch(max_records)
            with pytest.raises(ConfigurationError, match="max_records must be "):
                await consumer.fetch_by_partition(max_records)
        if value != 1.5:
            with pytest.raises(ConfigurationError, match="timeout_ms must be "):
                await consumer.fetch_batch(timeout_ms=value)
            with pytest.raises(ConfigurationError, match="timeout_ms must be "):
                await consumer.close(timeout_ms=value)
        assert await values(consumer, 1) == [b"v"]


@pytest.mark.parametrize("wrong", [None, "t", ("t",), ("t", "0"), ("t", True), ("t", -1)], ids=repr)
async def test_arguments_that_are_no_partitions_are_named(cluster: FakeCluster, wrong: Any) -> None:
    cluster.create("t")
    async with reading(cluster) as consumer:
        for method in (consumer.pause, consumer.resume, consumer.position, consumer.lag):
            with pytest.raises(ConfigurationError, match="a partition is TopicPartition"):
                method(wrong)
        for lookup in (consumer.beginning_offsets, consumer.end_offsets):
            with pytest.raises(ConfigurationError, match="a partition is TopicPartition"):
                await lookup([wrong])
        with pytest.raises(ConfigurationError, match="a partition is TopicPartition"):
            await consumer.offsets_for_times({wrong: 1})
        with pytest.raises(ConfigurationError, match="a topic's name must not be empty"):
            consumer.assign([TopicPartition("", 0)])
        with pytest.raises(ConfigurationError, match="a topic's name must not be empty"):
            await consumer.assign_topics("")
        as_list: Any = ["t", 0]
        consumer.seek(as_list, 0)
        assert consumer.position(as_list) == 0


async def test_a_read_without_waiting_returns_the_buffered_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    for _ in range(8):
        log.append_values(*[b"v"] * 600)
    async with reading(cluster) as consumer:
        counts = [len(await consumer.fetch_batch())]
        while records := await consumer.fetch_batch(timeout_ms=0):
            counts.append(len(records))
        assert sum(counts) == 8 * 600


async def test_records_can_be_grouped_by_partition(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0])
    for partition, log in enumerate(logs):
        log.append_values(*[b"%d" % partition] * 3)
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    async with reading(cluster, T0, T1) as consumer:
        while len(found) < 2:
            found |= await consumer.fetch_by_partition()
    assert [record.value for record in found[T0]] == [b"0"] * 3
    assert [record.offset for record in found[T1]] == [0, 1, 2]


async def test_all_partitions_of_topics_can_be_assigned(pair: FakeCluster) -> None:
    for name, leaders in {"t": [0, 1], "u": [1]}.items():
        for log in pair.create(name, leaders):
            log.append_values(name.encode())
    async with Consumer(pair.bootstrap, auto_offset_reset="earliest") as consumer:
        assigned = await consumer.assign_topics("t", "u")
        assert assigned == [T0, T1, TopicPartition("u", 0)] == consumer.assignment()
        assert sorted(await values(consumer, 3)) == [b"t", b"t", b"u"]  # type: ignore[type-var]
        with pytest.raises(UnknownTopicError):
            await Consumer.assign_topics(consumer, "nowhere")


# Positions


@pytest.mark.parametrize(
    ("policy", "expected"), [("earliest", [b"0", b"1", b"new"]), ("latest", [b"new"])]
)
async def test_the_reset_policy_decides_the_start(
    cluster: FakeCluster, policy: str, expected: list[bytes]
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    async with reading(cluster, auto_offset_reset=policy) as consumer:
        assert consumer.position(T0) is None
        await until(lambda: consumer.position(T0) is not None, "a position")
        log.append_values(b"new")
        cluster.announce()
        assert await values(consumer, len(expected)) == expected


async def test_without_policy_a_position_must_be_set(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    async with reading(cluster, auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="no position is set"):
            await consumer.fetch_batch()
        consumer.seek(T0, 1)
        assert await values(consumer, 1) == [b"1"]


async def test_the_reset_policy_applies_to_an_offset_out_of_range(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1", b"2")
    async with reading(cluster) as consumer:
        consumer.seek(T0, 99)
        assert await values(consumer, 3) == [b"0", b"1", b"2"]
    async with reading(cluster, auto_offset_reset="none") as consumer:
        consumer.seek(T0, 99)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="offset 99"):
                await consumer.fetch_batch()
        consumer.seek(T0, 2)
        assert await values(consumer, 1) == [b"2"]


@pytest.mark.parametrize(
    ("policy", "expected"), [("earliest", [b"0", b"1", b"2", b"3", b"new"]), ("latest", [b"new"])]
)
async def test_the_reset_policy_applies_to_a_topic_that_is_created_again(
    cluster: FakeCluster, policy: str, expected: list[bytes]
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"old", b"old")
    async with reading(cluster, auto_offset_reset=policy, metadata_max_age_ms=20) as consumer:
        consumer.seek(T0, 0)
        assert await values(consumer, 2) == [b"old", b"old"]
        await recreate(cluster, consumer)
        await until(lambda: consumer.position(T0) is not None, "a position")
        cluster.logs.topics["t"].partitions[0].append_values(b"new")
        cluster.announce()
        assert await values(consumer, len(expected)) == expected


async def test_without_policy_a_topic_that_is_created_again_is_reported(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"old", b"old")
    async with reading(cluster, auto_offset_reset="none", metadata_max_age_ms=20) as consumer:
        consumer.seek(T0, 0)
        await take(consumer, 2)
        await recreate(cluster, consumer)
        with pytest.raises(OffsetOutOfRangeError, match="deleted and created again") as caught:
            await consumer.fetch_batch()
        assert caught.value.offset == 2
        with pytest.raises(OffsetOutOfRangeError, match="no position is set"):
            await consumer.fetch_batch()
        consumer.seek(T0, 1)
        assert await values(consumer, 3) == [b"1", b"2", b"3"]


async def test_a_topic_that_is_created_again_resets_a_position_once(cluster: FakeCluster) -> None:
    """Also if the broker takes no topic ids in fetches."""
    cluster.versions[ApiKey.FETCH] = (4, TOPIC_IDS_SINCE - 1)
    (log,) = cluster.create("t")
    log.append_values(b"old", b"old")
    async with reading(cluster, auto_offset_reset="none") as consumer:
        consumer.seek(T0, 0)
        await take(consumer, 2)
        await known_topic(cluster, consumer)
        release = cluster.hold(ApiKey.METADATA)
        (log,) = cluster.create("t")
        log.append_values(b"0")
        with pytest.raises(OffsetOutOfRangeError, match="offset 2 is not in the log"):
            await consumer.fetch_batch()
        consumer.seek(T0, 0)
        assert await values(consumer, 1) == [b"0"]
        # The offset out of range makes the consumer refresh its metadata.
        release.set()
        new_id = cluster.logs.topics["t"].topic_id
        client = consumer._started()
        await until(lambda: client.metadata.topics["t"].topic_id == new_id, "the new topic id")
        log.append_values(b"1")
        cluster.announce()
        assert await values(consumer, 1) == [b"1"]


async def test_a_seek_in_a_topic_that_was_created_again_stands(cluster: FakeCluster) -> None:
    """Also if metadata from before the seek arrives after it."""
    (log,) = cluster.create("t")
    log.append_values(b"old", b"old")
    async with reading(cluster, auto_offset_reset="none") as consumer:
        client = consumer._started()
        consumer.seek(T0, 0)
        await take(consumer, 2)
        await known_topic(cluster, consumer)
        # A connection that opens or is lost shows the consumer its old metadata again.
        release = cluster.hold(ApiKey.METADATA)
        (log,) = cluster.create("t")
        log.append_values(b"0", b"1", b"2", b"3")
        consumer.seek(T0, 1)
        client.on_change()
        assert await values(consumer, 3) == [b"1", b"2", b"3"]
        release.set()
        await client.refresh()
        await known_topic(cluster, consumer)
        log.append_values(b"4")
        cluster.announce()
        assert await values(consumer, 1) == [b"4"]
        # The position is about the new topic, and ends with it.
        consumer.pause(T0)
        (log,) = cluster.create("t")
        log.append_values(*[b"newer"] * 9)
        await client.refresh()
        assert consumer.position(T0) is None


async def test_a_topic_that_is_created_again_during_a_reset_is_read_once(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")[0].append_values(b"old", b"old")
    async with reading(cluster) as consumer:
        client = consumer._started()
        assert await values(consumer, 2) == [b"old", b"old"]
        cluster.create("t")[0].append_values(b"lost")
        release = cluster.hold(ApiKey.LIST_OFFSETS)
        await client.refresh()
        (log,) = cluster.create("t")
        log.append_values(b"0", b"1")
        # The position is looked up for the second topic, and found in the third one.
        release.set()
        assert await values(consumer, 2) == [b"0", b"1"]
        await client.refresh()
        log.append_values(b"2")
        cluster.announce()
        assert await values(consumer, 1) == [b"2"]


async def test_a_topic_that_is_created_twice_is_not_read_at_a_former_position(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")[0].append_values(*[b"old"] * 5)
    async with reading(cluster, metadata_max_age_ms=50) as consumer:
        assert await values(consumer, 5) == [b"old"] * 5
        cluster.create("t")[0].append_values(b"lost", b"lost")
        release = cluster.hold(ApiKey.METADATA)
        cluster.announce()
        for attempt in range(2, 4):
            await cluster.wait_for(ApiKey.FETCH, len(cluster.seen(ApiKey.FETCH)) + attempt)
        cluster.create("t")[0].append_values(b"0", b"1", b"2", b"3")
        release.set()
        assert await values(consumer, 4) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID])
async def test_an_error_about_topic_ids_refreshes_the_metadata(
    cluster: FakeCluster, code: ErrorCode
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    async with reading(cluster) as consumer:
        assert await values(consumer, 1) == [b"0"]
        refresh_count = len(cluster.seen(ApiKey.METADATA))
        cluster.script(ApiKey.FETCH, Refuse(code))
        log.append_values(b"1")
        cluster.announce()
        assert await values(consumer, 1) == [b"1"]
        await cluster.wait_for(ApiKey.METADATA, refresh_count + 1)


async def test_a_fetch_names_topics_if_the_id_of_one_is_unknown(cluster: FakeCluster) -> None:
    cluster.create("t")[0].append_values(b"t")
    cluster.create("u")[0].append_values(b"u")
    cluster.logs.topics["u"].topic_id = ZERO_TOPIC_ID
    async with reading(cluster, T0, TopicPartition("u", 0)) as consumer:
        assert {each.value for each in await take(consumer, 2)} == {b"t", b"u"}
        consumer.assign([T0])
        await consumer.seek_to_beginning(T0)
        assert await values(consumer, 1) == [b"t"]
    versions = [each.version for each in cluster.requests if each.api_key is ApiKey.FETCH]
    assert (versions[0], versions[-1]) == (TOPIC_IDS_SINCE - 1, cluster.versions[ApiKey.FETCH][1])


async def test_seeks_refresh_no_metadata(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1", b"2")
    async with reading(cluster, retry_backoff_ms=1) as consumer:
        assert await values(consumer, 1) == [b"0"]
        refresh_count = len(cluster.seen(ApiKey.METADATA))
        for number in range(30):
            consumer.seek(T0, number % 3)
            assert await values(consumer, 1) == [b"%d" % (number % 3)]
        assert len(cluster.seen(ApiKey.METADATA)) == refresh_count


async def known_topic(cluster: FakeCluster, consumer: Consumer) -> None:
    """Wait until the consumer knows which topic its position is about."""
    state = consumer._reading.state(T0)
    current = cluster.logs.topics["t"].topic_id
    await until(lambda: state.topic_id == current, "the id of the topic")


async def recreate(cluster: FakeCluster, consumer: Consumer) -> None:
    """Replace topic t by one with four records, and wait until the consumer knows it."""
    await known_topic(cluster, consumer)
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1", b"2", b"3")
    cluster.announce()
    await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 2)


async def test_records_before_a_lost_range_are_handed_over_first(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    async with reading(cluster, auto_offset_reset="none") as consumer:
        consumer.seek(T0, 0)
        await until(lambda: consumer._buffer.size_bytes > 0, "the first batch")
        log.log_start_offset = log.next_offset = 50
        requested = len(cluster.seen(ApiKey.FETCH))
        await cluster.wait_for(ApiKey.FETCH, requested + 2)
        assert await values(consumer, 1) == [b"0"]
        with pytest.raises(OffsetOutOfRangeError):
            await take(consumer, 1)


async def test_seeking(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    for number in range(10):
        log.append_values(b"%d" % number, timestamp_ms=1_000 + 10 * number)
    async with reading(cluster) as consumer:
        consumer.seek(T0, 7)
        assert await values(consumer, 1) == [b"7"]
        await consumer.seek_to_beginning()
        assert await values(consumer, 1) == [b"0"]
        await consumer.seek_to_timestamp(T0, 1_031)
        assert await values(consumer, 1) == [b"4"]
        await consumer.seek_to_timestamp(T0, 9_999)
        assert consumer.position(T0) == 10
        await consumer.seek_to_end(T0)
        assert consumer.position(T0) == 10
        assert await consumer.beginning_offsets([T0]) == {T0: 0}
        assert await consumer.end_offsets([T0]) == {T0: 10}
        for offset in (-1, 2**63, 1.5):
            with pytest.raises(ValueError, match="a whole number from 0 to"):
                consumer.seek(T0, offset)  # type: ignore[arg-type]
        assert consumer.position(T0) == 10
        for timestamp in (-1, 2**63, 1.5):
            with pytest.raises(ValueError, match="a timestamp is a whole number from 0 to"):
                await consumer.offsets_for_times({T0: timestamp})  # type: ignore[dict-item]
        with pytest.raises(NotAssignedError, match="t-1"):
            consumer.seek(T1, 0)
        with pytest.raises(UnknownPartitionError):
            await consumer.end_offsets([T1])


async def test_an_assignment_that_no_request_can_carry_is_refused(cluster: FakeCluster) -> None:
    """One such topic would fail the metadata requests for all others, too."""
    (log,) = cluster.create("t")
    log.append_values(b"0")
    no_topic: Any = None
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        consumer.assign([T0])
        for wrong in (TopicPartition(no_topic, 0), TopicPartition("t", -1), "t"):
            with pytest.raises(ConfigurationError):
                consumer.assign([wrong, T0])  # type: ignore[list-item]
        assert consumer.assignment() == [T0]
        assert await values(consumer, 1) == [b"0"]
        pair: Any = ("t", 0)
        assert await consumer.end_offsets([pair]) == {T0: 1}


async def test_seeking_within_a_loop_takes_effect_at_once(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(*[b"%d" % number for number in range(10)])
    seen = []
    async with reading(cluster) as consumer:
        async for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1]:
                consumer.seek(T0, 8)
            if record.offset == 9:
                break
    assert seen == [0, 1, 8, 9]


async def test_a_seek_does_not_wait_for_a_fetch_in_flight(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    async with reading(cluster, fetch_max_wait_ms=60_000) as consumer:
        assert await values(consumer, 2) == [b"0", b"1"]
        await cluster.wait_for(ApiKey.FETCH, 2)
        consumer.seek(T0, 0)
        assert await values(consumer, 2) == [b"0", b"1"]


# Assignment and pausing


async def test_a_kept_partition_keeps_its_position(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0])
    for log in logs:
        log.append_values(b"0", b"1", b"2")
    async with reading(cluster) as consumer:
        assert await values(consumer, 2) == [b"0", b"1"]
        consumer.assign([T0, T1])
        assert sorted(await values(consumer, 4)) == [b"0", b"1", b"2", b"2"]  # type: ignore[type-var]
        consumer.assign([T1])
        with pytest.raises(NotAssignedError):
            consumer.position(T0)
        logs[0].append_values(b"unseen")
        logs[1].append_values(b"seen")
        cluster.announce()
        assert await values(consumer, 1) == [b"seen"]


async def test_a_paused_partition_loses_no_record(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0])
    for partition, log in enumerate(logs):
        log.append_values(*[b"%d" % partition] * 4)
    seen: list[tuple[int, int]] = []
    async with reading(cluster, T0, T1) as consumer:
        async for record in consumer:
            seen.append((record.partition, record.offset))
            if (0, 1) in seen and not consumer.paused():
                consumer.pause(T0)
                assert consumer.position(T0) == 2
            if (1, 3) in seen:
                break
        assert consumer.paused() == [T0]
        assert (0, 2) not in seen
        consumer.resume(T0)
        rest = [record.offset for record in await take(consumer, 2)]
    assert rest == [2, 3]


async def test_a_partition_paused_before_it_is_read_keeps_its_records(
    cluster: FakeCluster,
) -> None:
    logs = cluster.create("t", [0, 0])
    logs[0].append_values(b"0")
    async with reading(cluster, T0, T1) as consumer:
        await until(lambda: consumer._buffer.size_bytes > 0, "records")
        consumer.pause(T0)
        assert await consumer.fetch_batch(timeout_ms=20) == []
        logs[1].append_values(b"1")
        cluster.announce()
        assert await values(consumer, 1) == [b"1"]
        consumer.resume(T0)
        assert await values(consumer, 1) == [b"0"]


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
async def test_paused_partitions_leave_room_for_others_and_lose_no_record(
    cluster: FakeCluster, is_late: bool
) -> None:
    logs = cluster.create("t", [0, 0])
    for number in range(40):
        for log in logs:
            log.append_values(b"%d" % number)
    async with reading(
        cluster, T0, max_partition_fetch_bytes=1_000, prefetch_max_bytes=2_000
    ) as consumer:
        seen = await values(consumer, 3)
        await until(lambda: consumer._buffer.size_bytes > 1_500, "the buffer to be full")
        if not is_late:
            consumer.pause(T0)
        consumer.assign([T0, T1])
        # The pass that looks up the position of T1 and finds no room.
        await until(lambda: consumer.position(T1) == 0, "the position")
        if is_late:
            consumer.pause(T0)
        expected = [b"%d" % number for number in range(40)]
        assert await values(consumer, 40) == expected
        consumer.resume(T0)
        assert seen + await values(consumer, 37) == expected


# Contents of the log


async def test_gaps_and_empty_batches_are_skipped(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    log.append_as_is(empty_batch(base_offset=1, last_offset_delta=9))
    sparse = BatchBuilder()
    sparse.append(1_000, None, b"30")
    log.append_as_is(bytes(sparse.build(base_offset=30)))
    log.append_as_is(empty_batch(base_offset=31, last_offset_delta=0))
    async with reading(cluster) as consumer:
        assert [record.offset for record in await take(consumer, 2)] == [0, 30]
        assert await consumer.fetch_batch(timeout_ms=20) == []
        assert consumer.position(T0) == 32


def empty_batch(base_offset: int, last_offset_delta: int) -> bytes:
    """A batch as compaction leaves it after removing all of its records."""
    builder = BatchBuilder()
    builder.append(1_000, None, b"gone")
    batch = builder.build(base_offset)[:61]
    header = read_header(bytes(batch) + bytes(64))
    write_header(
        batch,
        header._replace(batch_length=61 - 12, last_offset_delta=last_offset_delta, record_count=0),
    )
    return bytes(batch)


def transactional(log: FakePartition, producer_id: int, *values: bytes) -> int:
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    for value in values:
        builder.append(1_000, None, value)
    return log.append(builder.build())


def end(log: FakePartition, producer_id: int, control_type: ControlType) -> None:
    log.append(
        build_control_batch(
            control_type,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1_000,
        )
    )


def transactions(log: FakePartition) -> None:
    """Producer 1 aborts and then commits; a transaction of producer 2 spans both."""
    start = transactional(log, 1, b"aborted")
    transactional(log, 2, b"committed")
    transactional(log, 1, b"aborted too")
    end(log, 1, ControlType.ABORT)
    transactional(log, 1, b"second try")
    end(log, 1, ControlType.COMMIT)
    end(log, 2, ControlType.COMMIT)
    log.append_values(b"plain")
    log.aborted.append(AbortedTransaction(producer_id=1, first_offset=start))


@pytest.mark.parametrize(
    ("isolation_level", "expected"),
    [
        ("read_uncommitted", [b"aborted", b"committed", b"aborted too", b"second try", b"plain"]),
        ("read_committed", [b"committed", b"second try", b"plain"]),
    ],
)
async def test_the_isolation_level_decides_about_aborted_records_and_hides_markers(
    cluster: FakeCluster, isolation_level: str, expected: list[bytes]
) -> None:
    (log,) = cluster.create("t")
    transactions(log)
    async with reading(cluster, isolation_level=isolation_level) as consumer:
        assert await values(consumer, len(expected)) == expected
        assert consumer.position(T0) == log.next_offset


async def test_the_append_time_replaces_the_time_of_the_record(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    builder = BatchBuilder()
    builder.append(1, None, b"a")
    builder.append(2, None, b"b")
    batch = builder.build()
    set_log_append_time(memoryview(batch), 5_000)
    log.append(batch)
    async with reading(cluster) as consumer:
        records = await take(consumer, 2)
    assert [record.timestamp_ms for record in records] == [5_000, 5_000]
    assert records[0].timestamp_type is TimestampType.LOG_APPEND_TIME


def damaged(log: FakePartition) -> None:
    """A valid batch, one with a flipped bit, and another valid one."""
    log.append_values(b"good")
    log.append_values(b"damaged")
    log.batches[-1] = log.batches[-1][:-2] + b"?" + log.batches[-1][-1:]
    log.append_values(b"behind")


async def test_a_damaged_batch_is_reported_until_a_seek_past_it(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    damaged(log)
    async with reading(cluster) as consumer:
        assert await values(consumer, 1) == [b"good"]
        for _ in range(2):
            with pytest.raises(CorruptRecordsError, match=r"offset 1 .*checksum"):
                await take(consumer, 1)
            assert consumer.position(T0) == 1
        consumer.seek(T0, 2)
        assert await values(consumer, 1) == [b"behind"]


async def test_damage_that_the_next_fetch_does_not_show_does_no_harm(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"good")
    healthy = log.batches[0]
    damaged(log)
    async with reading(cluster) as consumer:
        with pytest.raises(CorruptRecordsError):
            await take(consumer, 4)
        log.batches[2] = healthy[:-2] + b"!" + healthy[-1:]
        log.batches = [log.batches[0], log.batches[1]]
        log.next_offset = 2
        log.append_values(b"repaired")
        assert await values(consumer, 1) == [b"repaired"]


async def test_checksums_can_be_ignored(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    damaged(log)
    async with reading(cluster, check_crcs=False) as consumer:
        assert (await values(consumer, 3))[2] == b"behind"


async def test_bytes_that_are_not_a_batch_are_reported(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"good")
    log.batches[0] += b"\xff" * 70
    async with reading(cluster) as consumer:
        assert await values(consumer, 1) == [b"good"]
        log.batches[0] = b"\xff" * 70
        with pytest.raises(CorruptRecordsError):
            await take(consumer, 1)


# Faults


@pytest.mark.parametrize(
    "fault",
    [
        HangUp(),
        LoseResponse(),
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
        Refuse(ErrorCode.UNKNOWN_LEADER_EPOCH),
        Omit(),
    ],
    ids=str,
)
@pytest.mark.parametrize("api_key", [ApiKey.FETCH, ApiKey.LIST_OFFSETS])
async def test_the_consumer_recovers_from_a_transient_fault(
    cluster: FakeCluster, fault: Fault, api_key: ApiKey
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    cluster.script(api_key, fault, fault)
    async with reading(cluster) as consumer:
        assert await values(consumer, 2) == [b"0", b"1"]
    assert not cluster.next_fault(api_key), "not every fault occurred"


@pytest.mark.parametrize("name", ["FetchedBlock", "ask_leaders", "ask_epoch_ends"])
async def test_an_error_inside_the_consumer_is_raised_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    module = fetcher if name == "FetchedBlock" else positions
    monkeypatch.setattr(module, name, raising_once(getattr(module, name)))
    async with reading(cluster) as consumer:
        if name == "ask_epoch_ends":
            assert await values(consumer, 2) == [b"0", b"1"]
            log.move_to(0)
            log.append_values(b"2")
            await consumer._started().refresh()
        async with asyncio.timeout(20):
            with pytest.raises(ConsumeError, match="t-0: RuntimeError inside this client: a def"):
                await consumer.fetch_batch()
        assert (await values(consumer, 1))[0] in (b"0", b"2")


async def test_a_wholly_refused_fetch_is_retried(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    cluster.script(ApiKey.FETCH, RefuseWhole(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    async with reading(cluster) as consumer:
        assert await values(consumer, 1) == [b"0"]


async def test_a_broker_that_lacks_a_needed_version_is_reported(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.versions[ApiKey.LIST_OFFSETS] = (1, 1)
    async with reading(cluster, isolation_level="read_committed") as consumer:
        with pytest.raises(UnsupportedVersionError, match="in version 1, which"):
            await consumer.fetch_batch()
    cluster.versions |= {ApiKey.LIST_OFFSETS: (4, 7), ApiKey.FETCH: (18, 19)}
    async with reading(cluster) as consumer:
        with pytest.raises(UnsupportedVersionError, match="FETCH in versions 18"):
            await consumer.fetch_batch()


async def test_offsets_are_looked_up_again_after_an_election(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    async with reading(cluster) as consumer:
        await take(consumer, 1)
        log.move_to(-1)
        await consumer._started().refresh()
        lookup = asyncio.ensure_future(consumer.end_offsets([T0]))
        await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 2)
        log.move_to(0)
        assert await lookup == {T0: 1}


async def test_a_long_iteration_lets_other_tasks_run(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    for _ in range(10):
        log.append_values(*[b"v"] * 500)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with reading(cluster) as consumer:
        await take(consumer, 1)
        counting = asyncio.ensure_future(count_turns())
        async for record in consumer:
            if record.offset == 4_999:
                break
        counting.cancel()
    assert turns > 3


async def test_a_new_leader_and_epoch_are_followed(pair: FakeCluster) -> None:
    (log,) = pair.create("t", [0])
    log.append_values(b"0")
    async with reading(pair, fetch_max_wait_ms=20) as consumer:
        assert await values(consumer, 1) == [b"0"]
        for number in range(1, 5):
            log.move_to(number % 2)
            log.append_values(b"%d" % number)
            assert await values(consumer, 1) == [b"%d" % number]
    epochs = [
        requested.current_leader_epoch
        for request in pair.seen(ApiKey.FETCH)
        for topic in request.topics
        for requested in topic.partitions
    ]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 4


async def test_a_truncated_log_is_read_from_where_it_diverges(pair: FakeCluster) -> None:
    (log,) = pair.create("t", [0])
    for value in (b"0", b"1", b"2"):
        log.append_values(value)
    async with reading(pair, fetch_max_wait_ms=20) as consumer:
        assert await values(consumer, 3) == [b"0", b"1", b"2"]
        # An unclean election: the new leader lacks records that were read, and has other ones.
        log.cut_to(1)
        log.move_to(1)
        log.append_values(b"one")
        log.append_values(b"two")
        log.append_values(b"three")
        assert await values(consumer, 3) == [b"one", b"two", b"three"]


async def test_a_follower_that_the_metadata_does_not_show_in_sync_yet_is_read(
    pair: FakeCluster,
) -> None:
    (log,) = pair.create("t", [0])
    log.append_values(b"0")
    async with reading(pair, fetch_max_wait_ms=20) as consumer:
        assert await values(consumer, 1) == [b"0"]
        log.in_sync_follower = 1
        log.append_values(b"1")
        assert await values(consumer, 1) == [b"1"]
    assert {each.broker_id for each in pair.requests if each.api_key is ApiKey.FETCH} == {0, 1}


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_a_log_truncated_above_the_position_is_read_without_loss(
    pair: FakeCluster, policy: str
) -> None:
    (log,) = pair.create("t", [0])
    for number in range(5):
        log.append_values(b"%d" % number)
    async with reading(pair, fetch_max_wait_ms=20, auto_offset_reset=policy) as consumer:
        consumer.seek(T0, 0)
        assert await values(consumer, 2) == [b"0", b"1"]
        log.cut_to(4)
        log.move_to(1)
        log.append_values(b"four")
        await pair.wait_for(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2)
        assert await values(consumer, 3) == [b"2", b"3", b"four"]


async def test_a_truncated_log_is_reported_without_a_reset_policy(pair: FakeCluster) -> None:
    (log,) = pair.create("t", [0])
    log.append_values(b"0")
    log.append_values(b"1")
    async with reading(pair, fetch_max_wait_ms=20, auto_offset_reset="none") as consumer:
        consumer.seek(T0, 0)
        assert await values(consumer, 2) == [b"0", b"1"]
        log.cut_to(1)
        log.move_to(1)
        for value in (b"one", b"two"):
            log.append_values(value)
        with pytest.raises(LogTruncatedError, match="offset 1 on") as raised:
            await take(consumer, 1)
        assert (raised.value.offset, raised.value.diverging_offset) == (2, 1)
        consumer.seek(T0, 1)
        assert await values(consumer, 2) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED), BrokerError, "right to use"),
        (Garbage(b"??"), ProtocolError, "no valid Kafka response"),
    ],
    ids=str,
)
async def test_a_permanent_fault_is_raised_and_the_next_read_retries(
    cluster: FakeCluster, fault: Fault, error: type[Exception], message: str
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    cluster.script(ApiKey.FETCH, fault)
    async with reading(cluster) as consumer:
        with pytest.raises(error, match=message):
            await take(consumer, 1)
        assert await values(consumer, 1) == [b"0"]


async def test_a_connection_that_is_refused_is_raised_and_the_next_read_retries(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        # This opens the connection for other requests, so that the client looks healthy.
        await consumer.end_offsets([T0])
        cluster.script(ApiKey.API_VERSIONS, Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        consumer.assign([T0])
        with pytest.raises(NotAuthorizedError, match="ApiVersions"):
            await take(consumer, 1)
        assert await values(consumer, 1) == [b"0"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NotAuthorizedError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, BrokerError),
    ],
)
async def test_a_read_raises_that_the_brokers_refuse_to_describe_a_topic(
    cluster: FakeCluster, code: ErrorCode, error: type[Exception]
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        cluster.script(ApiKey.METADATA, Refuse(code))
        consumer.assign([T0])
        with pytest.raises(error, match="topic t"):
            await take(consumer, 1)
        # Once: the rights may have changed, and other topics can be read.
        assert await values(consumer, 1) == [b"0"]


async def test_no_read_raises_that_a_topic_is_refused_which_was_left(cluster: FakeCluster) -> None:
    cluster.create("t")
    (log,) = cluster.create("open")
    log.append_values(b"0")
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
        cluster.script(ApiKey.METADATA, *[Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 1_000)
        consumer.assign([T0])
        with pytest.raises(NotAuthorizedError, match="topic t"):
            await take(consumer, 1)
        # Refreshes continue, as T0 has no leader, and the next one is refused, too.
        await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 2)
        consumer.assign([TopicPartition("open", 0)])
        cluster.heal(ApiKey.METADATA)
        assert await values(consumer, 1) == [b"0"]


async def test_an_error_does_not_discard_the_records_before_it(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0])
    logs[0].append_values(b"0")
    damaged(logs[1])
    async with reading(cluster, T0, T1) as consumer:
        await until(lambda: consumer._buffer.size_bytes > 200, "both partitions")
        got = await consumer.fetch_batch(100)
        assert {record.value for record in got} == {b"0", b"good"}
        with pytest.raises(CorruptRecordsError):
            await consumer.fetch_batch(100)


async def test_prefetched_data_is_limited(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0] * 4)
    for log in logs:
        for _ in range(50):
            log.append_values(b"x" * 80_000)
    partitions = [TopicPartition("t", number) for number in range(4)]
    async with reading(
        cluster, *partitions, max_partition_fetch_bytes=320_000, prefetch_max_bytes=800_000
    ) as consumer:
        most = 0
        for _ in range(200):
            await take(consumer, 1)
            most = max(most, consumer._buffer.size_bytes)
    # One batch per partition may exceed the limit: a broker sends at least one.
    assert 320_000 < most <= 800_000 + 4 * 81_000


async def test_the_next_fetch_is_sent_while_records_are_handed_over(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    for _ in range(10):
        log.append_values(b"x" * 1_000)
    async with reading(cluster, max_partition_fetch_bytes=2_000) as consumer:
        await take(consumer, 1)
        await cluster.wait_for(ApiKey.FETCH, 2)
        assert await values(consumer, 9) == [b"x" * 1_000] * 9


async def test_empty_partitions_do_not_hold_up_others(
    cluster: FakeCluster,
) -> None:
    logs = cluster.create("t", [0] * 6)
    for partition, log in enumerate(logs):
        for _ in range(5 * partition):
            log.append_values(b"x" * 50_000)
    async with (
        reading(
            cluster,
            *[TopicPartition("t", number) for number in range(6)],
            max_partition_fetch_bytes=100_000,
            fetch_max_wait_ms=60_000,
        ) as consumer,
        asyncio.timeout(20),
    ):
        assert len(await values(consumer, 75)) == 75
        logs[0].append_values(b"at last")
        assert await values(consumer, 1) == [b"at last"]


async def test_a_fetch_names_no_more_partitions_than_a_broker_takes(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.consumer.fetcher.MAX_PARTITIONS_PER_FETCH", 2)
    logs = cluster.create("t", [0] * 5)
    partitions = [TopicPartition("t", number) for number in range(5)]
    async with reading(cluster, *partitions, fetch_max_wait_ms=50) as consumer:
        for round_number in range(3):
            for log in logs:
                log.append_values(b"%d" % round_number)
            assert await values(consumer, 5) == [b"%d" % round_number] * 5
    requests = cluster.seen(ApiKey.FETCH)
    for request in requests:
        assert sum(len(topic.partitions) for topic in request.topics) <= 2
    # None of them waits only briefly, although each has partitions that wait for their turn.
    assert {request.max_wait_ms for request in requests} == {50}


async def test_a_slow_partition_does_not_hold_up_another(pair: FakeCluster) -> None:
    logs = pair.create("t", [0, 1])
    logs[1].append_values(b"1")
    release = pair.hold(ApiKey.FETCH)
    async with reading(pair, T0) as consumer:
        await pair.wait_for(ApiKey.FETCH)
        consumer.assign([T0, T1])
        assert await values(consumer, 1) == [b"1"]
        release.set()


async def test_a_consumer_may_be_assigned_before_it_starts(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0", b"1")
    never_started = Consumer(cluster.bootstrap)
    await never_started.close()
    consumer = Consumer(cluster.bootstrap, auto_offset_reset="latest")
    consumer.assign([T0])
    consumer.seek(T0, 1)
    with pytest.raises(ClientClosedError):
        await consumer.fetch_batch()
    async with consumer:
        assert await values(consumer, 1) == [b"1"]
        with pytest.raises(ClientClosedError):
            await consumer.start()


async def test_a_consumer_never_creates_a_topic(cluster: FakeCluster) -> None:
    async with reading(cluster) as consumer:
        assert await consumer.fetch_batch(timeout_ms=20) == []
        (log,) = cluster.create("t")
        log.append_values(b"0")
        assert await values(consumer, 1) == [b"0"]
    assert not any(request.allow_auto_topic_creation for request in cluster.seen(ApiKey.METADATA))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="sometimes"):
        Consumer("localhost", auto_offset_reset="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="read_dirty"):
        Consumer("localhost", isolation_level="read_dirty")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="prefetch_max_bytes must be within 1048576"):
        Consumer("localhost", prefetch_max_bytes=1)
    five: Any = 5
    for settings in ({"interceptors": five}, {"group_id": "g", "assignors": five}):
        with pytest.raises(ConfigurationError, match=r"(interceptors|assignors) must be a list"):
            Consumer("localhost", **settings)
