"""The producer against a scripted cluster: written records, deliveries and errors."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from math import inf, nan
from typing import Any

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.units import MIB
from ottla import Admin, Consumer, Producer, RecordMetadata
from ottla.client.client_config import Acks
from ottla.client.errors import (
    BrokerError,
    BufferFullError,
    ClientClosedError,
    ConfigurationError,
    DeliveryTimedOutError,
    NoBrokerAvailableError,
    NotAuthorizedError,
    ProduceError,
    RecordTooLargeError,
    TokenProviderError,
    UnknownPartitionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from ottla.client.interceptor import ProducerInterceptor
from ottla.client.network import broker_connection, connection_pool
from ottla.client.network.broker_connection import Connection
from ottla.client.network.cluster import Cluster
from ottla.client.network.handshake import open_connection
from ottla.client.producer import sender
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.producer_batch import ProducerBatch
from tests.integration.client.client_support import FAST, delivery_timeout, raising_once
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    LoseResponse,
    Never,
    Omit,
    Refuse,
)
from tests.waiting import DEADLINE_S, until


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_arrive_as_they_were_sent(
    cluster: FakeCluster, compression: str | None
) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, compression=compression, linger_ms=5) as producer:
        first = await producer.send(
            "t", b"value", key=b"key", timestamp_ms=77, headers=[("h", b"1"), ("none", None)]
        )
        second = await producer.send("t", None, timestamp_ms=78)
        assert await first == RecordMetadata("t", 0, Offset(0), 77)
        assert await second == RecordMetadata("t", 0, Offset(1), 78)
    record, tombstone = log.records()
    assert (record.key, record.value, record.timestamp_ms) == (b"key", b"value", 77)
    assert record.headers == (("h", b"1"), ("none", None))
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, ())


async def test_a_bytes_like_value_is_copied_at_once(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    changing = bytearray(b"before")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("t", changing, key=memoryview(b"key"))
        changing[:] = b"after!"
        await producer.send("t", memoryview(b"view"), key=bytearray(b"key"))
    assert [(record.key, record.value) for record in log.records()] == [
        (b"key", b"before"),
        (b"key", b"view"),
    ]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acks_decide_the_result_of_a_delivery(cluster: FakeCluster, acks: Acks) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, acks=acks) as producer:
        written = await producer.send_and_wait("t", b"v")
        assert written.offset == (-1 if acks == 0 else 0)
    await until(lambda: log.values() == [b"v"], "the record")
    assert [request.acks for request in cluster.seen(ApiKey.PRODUCE)] == [
        -1 if acks == "all" else acks
    ]


async def test_many_records_keep_their_order_and_get_their_offsets(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0, 0])
    async with Producer(cluster.bootstrap, batch_size_bytes=1_000) as producer:
        deliveries = [
            await producer.send("t", b"%d" % number, partition=number % 3)
            for number in range(3_000)
        ]
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
    for partition, log in enumerate(logs):
        assert log.values() == [b"%d" % number for number in range(partition, 3_000, 3)]
        offsets = [delivery.result().offset for delivery in deliveries[partition::3]]
        assert offsets == list(range(1_000))


async def test_flush_returns_after_the_callbacks_of_the_deliveries(cluster: FakeCluster) -> None:
    cluster.create("t")
    seen: list[int] = []
    async with Producer(cluster.bootstrap) as producer:
        first = await producer.send("t", b"0")

        async def flush_after_first() -> None:
            # The same response completes both deliveries, and this task runs before the callback.
            await first
            await producer.flush()
            assert seen == [1]

        flushing = asyncio.create_task(flush_after_first())
        await asyncio.sleep(0)
        second = await producer.send("t", b"1")
        second.add_done_callback(lambda delivery: seen.append(delivery.result().offset))
        await flushing


async def test_records_without_key_reach_every_partition(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0] * 4)
    async with Producer(cluster.bootstrap, batch_size_bytes=200) as producer:
        for _ in range(2_000):
            await producer.send("t", b"x" * 20)
    counts = [len(log.records()) for log in logs]
    assert sum(counts) == 2_000
    assert all(count > 100 for count in counts), counts


async def test_linger_gathers_records_into_one_batch(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        deliveries = []
        for number in range(3):
            deliveries.append(await producer.send("t", b"%d" % number))
            await asyncio.sleep(0.001)
        assert not cluster.seen(ApiKey.PRODUCE)
        await producer.flush()
        await asyncio.gather(*deliveries)
    assert len(log.batches) == 1


async def test_a_waiting_batch_grows_instead_of_queueing_behind_small_ones(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    async with Producer(cluster.bootstrap, batch_size_bytes=1_000) as producer:
        await producer.send("t", b"first")
        await cluster.wait_for(ApiKey.PRODUCE)
        for _ in range(100):
            await producer.send("t", b"x" * 100)
        release.set()
    assert len(log.records()) == 101
    assert len(log.batches) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Refuse(ErrorCode.NOT_ENOUGH_REPLICAS),
        Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        HangUp(),
        Omit(),
        Garbage(b"\0\0"),
        Garbage(b"\0\0\0\x63junk"),
    ],
    ids=str,
)
async def test_a_transient_fault_is_retried_and_keeps_the_order(
    cluster: FakeCluster, fault: Fault
) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, fault, fault)
    async with Producer(cluster.bootstrap, batch_size_bytes=100, **FAST) as producer:
        for number in range(100):
            await producer.send("t", b"%d" % number)
    assert log.values() == [b"%d" % number for number in range(100)]


async def test_without_idempotence_a_lost_response_duplicates_a_batch_in_order(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, LoseResponse())
    async with Producer(cluster.bootstrap, enable_idempotence=False, **FAST) as producer:
        written = await producer.send_and_wait("t", b"a")
        assert written.offset == 1
        await producer.send_and_wait("t", b"b")
    assert log.values() == [b"a", b"a", b"b"]


async def test_a_new_leader_gets_the_remaining_records(pair: FakeCluster) -> None:
    (log,) = pair.create("t", [0])
    async with Producer(pair.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"at broker 0")
        log.move_to(1)
        await producer.send_and_wait("t", b"at broker 1")
    requested = [seen.broker_id for seen in pair.requests if seen.api_key is ApiKey.PRODUCE]
    assert requested[:2] == [0, 0]
    assert requested.count(1) == 1
    assert log.values() == [b"at broker 0", b"at broker 1"]


async def test_a_leader_that_the_refusal_names_needs_no_metadata(
    pair: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = pair.create("t", [0])
    async with Producer(pair.bootstrap) as producer:
        await producer.send_and_wait("t", b"at broker 0")
        refreshes: list[object] = []
        monkeypatch.setattr(Cluster, "request_refresh", lambda each: refreshes.append(each))
        log.move_to(1, is_named=True)
        await producer.send_and_wait("t", b"at broker 1")
        assert refreshes == []
    requested = [seen.broker_id for seen in pair.requests if seen.api_key is ApiKey.PRODUCE]
    assert requested == [0, 0, 1]
    assert log.values() == [b"at broker 0", b"at broker 1"]


async def test_the_producer_waits_for_the_end_of_an_election(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"before")
        log.move_to(-1)
        delivery = await producer.send("t", b"during")
        requested = len(cluster.seen(ApiKey.METADATA))
        await cluster.wait_for(ApiKey.METADATA, requested + 2)
        assert not delivery.done()
        log.move_to(0)
        await delivery
    assert log.values() == [b"before", b"during"]


async def test_the_producer_finds_a_restarted_broker(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    broker = cluster.brokers[0]
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"before")
        await broker.stop()
        delivery = await producer.send("t", b"during")
        await broker.start()
        await delivery
    assert log.values() == [b"before", b"during"]


async def test_partitions_of_one_broker_share_requests(cluster: FakeCluster) -> None:
    cluster.create("t", [0] * 10)
    async with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        for partition in range(10):
            await producer.send("t", b"v", partition=partition)
    assert len(cluster.seen(ApiKey.PRODUCE)) == 1


async def test_requests_stay_within_max_request_bytes(cluster: FakeCluster) -> None:
    cluster.create("t", [0] * 10)
    async with Producer(
        cluster.bootstrap, linger_ms=20, batch_size_bytes=1_000, max_request_bytes=2_000
    ) as producer:
        for number in range(90):
            await producer.send("t", b"x" * 100, partition=number % 10)
    requests = cluster.seen(ApiKey.PRODUCE)
    assert len(requests) >= 5
    for request in requests:
        batches = [data.records for topic in request.topic_data for data in topic.partition_data]
        assert sum(map(len, batches)) <= 2_000


async def test_requests_name_no_more_partitions_than_a_broker_takes(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.sender.MAX_PARTITIONS_PER_REQUEST", 4)
    logs = cluster.create("t", [0] * 10)
    async with Producer(cluster.bootstrap, linger_ms=20) as producer:
        for partition in range(10):
            await producer.send("t", b"v", partition=partition)
    assert [log.values() for log in logs] == [[b"v"]] * 10
    requests = cluster.seen(ApiKey.PRODUCE)
    assert len(requests) >= 3
    for request in requests:
        assert sum(len(topic.partition_data) for topic in request.topic_data) <= 4


async def test_a_topic_without_records_is_forgotten(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.producer.TOPIC_IDLE_S", 0.0)
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, metadata_max_age_ms=5) as producer:
        await producer.send_and_wait("t", b"1")
        async with asyncio.timeout(10):
            while cluster.seen(ApiKey.METADATA)[-1].topics:
                await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 1)
        await producer.send_and_wait("t", b"2")
    assert log.values() == [b"1", b"2"]


@pytest.mark.parametrize("is_sent_to", [False, True])
async def test_a_topic_of_send_nowait_is_not_forgotten(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, *, is_sent_to: bool
) -> None:
    monkeypatch.setattr("ottla.client.producer.producer.TOPIC_IDLE_S", 0.0)
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, metadata_max_age_ms=5, batch_size_bytes=100) as producer:
        if is_sent_to:
            await producer.send("t", b"1")
            # It does not fit into the first batch.
            await producer.send_nowait("t", b"2" * 100)
        else:
            await producer.partitions("t")
        async with asyncio.timeout(10):
            await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 4)
        await producer.send_nowait("t", b"3")
    assert log.values()[-1] == b"3"


async def test_a_topic_of_send_nowait_into_a_batch_of_send_is_not_forgotten(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.producer.TOPIC_IDLE_S", 0.0)
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, metadata_max_age_ms=5) as producer:
        await producer.send("t", b"1")
        await producer.send_nowait("t", b"2")
        async with asyncio.timeout(10):
            await cluster.wait_for(ApiKey.METADATA, len(cluster.seen(ApiKey.METADATA)) + 4)
        await producer.send_nowait("t", b"3")
    assert log.values() == [b"1", b"2", b"3"]


async def test_a_broker_that_reads_nothing_holds_up_even_unacknowledged_records(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    count = 400
    async with Producer(cluster.bootstrap, acks=0, buffer_memory_bytes=1_000_000) as producer:
        sent = 0

        async def send_all() -> None:
            nonlocal sent
            for number in range(count):
                await producer.send("t", b"%06d" % number + b"x" * 50_000)
                sent += 1

        sending = asyncio.ensure_future(send_all())
        await until(lambda: not is_writable(producer), "a full socket")
        await until(lambda: producer._accumulator.budget.is_exhausted, "a full buffer")
        assert sent < count
        release.set()
        await sending
    await until(lambda: len(log.batches) > 0 and log.next_offset == count, "all records")
    assert [int((value or b"")[:6]) for value in log.values()] == list(range(count))


async def test_close_waits_for_unacknowledged_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, acks=0) as producer:
        for number in range(300):
            await producer.send("t", b"%06d" % number + b"x" * 50_000)
    await until(lambda: log.next_offset == 300, "all records")


async def test_a_broker_that_reads_nothing_does_not_hold_up_close(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_connection, "CLOSE_TIMEOUT_S", 0.05)
    cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    producer = Producer(cluster.bootstrap, acks=0)
    await producer.start()
    for _ in range(300):
        await producer.send("t", b"x" * 50_000)
    await until(lambda: not is_writable(producer), "a full socket")
    await producer.close(timeout_ms=10)
    release.set()


def is_writable(producer: Producer) -> bool:
    """Whether every connection is writable."""
    connections = producer._started()._pool._open.values()
    return all(connection.is_writable for connection in connections)


async def test_a_silent_broker_ends_in_a_delivery_timeout(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())
    async with Producer(cluster.bootstrap) as producer:
        out = await producer.send("t", b"out")
        await cluster.wait_for(ApiKey.PRODUCE)
        waiting = await producer.send("t", b"waiting")
        with delivery_timeout(producer, 0.05):
            for delivery in (out, waiting):
                with pytest.raises(DeliveryTimedOutError, match="may or may not"):
                    await delivery


async def test_a_silent_leader_holds_up_later_records_for_one_delivery_timeout(
    pair: FakeCluster,
) -> None:
    (log,) = pair.create("t", [0])
    pair.script(ApiKey.PRODUCE, Never())
    async with Producer(
        pair.bootstrap, delivery_timeout_ms=1_000, request_timeout_ms=600_000, **FAST
    ) as producer:
        # Batches that wait do not expire, however busy the machine is.
        with delivery_timeout(producer, 600):
            out = await producer.send("t", b"out")
            await pair.wait_for(ApiKey.PRODUCE)
            later = await producer.send("t", b"later")
            log.move_to(1)
            async with asyncio.timeout(DEADLINE_S):
                await later
            with pytest.raises(DeliveryTimedOutError):
                await out
    assert log.values() == [b"later"]


async def test_a_lasting_fault_ends_in_a_delivery_timeout_that_names_it(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, *[Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 100)
    async with Producer(cluster.bootstrap, **FAST) as producer:
        sending = asyncio.ensure_future(producer.send_and_wait("t", b"v"))
        # The second attempt follows the first refusal.
        await cluster.wait_for(ApiKey.PRODUCE, 2)
        with (
            delivery_timeout(producer, 0.05),
            pytest.raises(DeliveryTimedOutError, match="NOT_ENOUGH_REPLICAS"),
        ):
            await sending


async def test_a_connection_that_is_refused_fails_the_records_that_wait_for_it(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, batch_size_bytes=1, **FAST) as producer:
        # This opens the connection for other requests, so that the client looks healthy.
        await producer.partitions("t")
        cluster.script(ApiKey.API_VERSIONS, Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        for delivery in [await producer.send("t", value) for value in (b"0", b"1")]:
            with pytest.raises(NotAuthorizedError, match="ApiVersions"):
                await delivery
        assert "connection.failed broker=0 purpose=produce error=ApiVersions" in caplog.text
        await producer.send_and_wait("t", b"2")
    assert log.values() == [b"2"]


async def test_a_failure_of_the_token_provider_passes_for_records_that_were_accepted(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = cluster.create("t")
    failures = [TokenProviderError("sasl_oauth_token_provider raised OSError")] * 2

    async def open_later(*arguments: Any) -> Connection:
        if failures:
            raise failures.pop()
        return await open_connection(*arguments)

    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.partitions("t")
        monkeypatch.setattr(connection_pool, "open_connection", open_later)
        await producer.send_and_wait("t", b"v")
    assert failures == []
    assert log.values() == [b"v"]


async def test_a_failure_of_the_token_provider_passes_for_the_request_for_a_producer_id(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = cluster.create("t")
    failures = [TokenProviderError("sasl_oauth_token_provider raised OSError")] * 2

    request_any = Cluster.request_any

    async def request_later(self: Cluster, message: Any, *arguments: Any, **settings: Any) -> Any:
        if failures and isinstance(message, InitProducerIdRequest):
            raise failures.pop()
        return await request_any(self, message, *arguments, **settings)

    monkeypatch.setattr(Cluster, "request_any", request_later)
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"v")
    assert failures == []
    assert log.values() == [b"v"]


async def test_a_delivery_timeout_names_the_error_of_the_connection(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.partitions("t")
        cluster.script(ApiKey.API_VERSIONS, *[HangUp()] * 1_000)
        sending = asyncio.ensure_future(producer.send_and_wait("t", b"v"))
        opened_count = len(cluster.seen(ApiKey.API_VERSIONS))
        await cluster.wait_for(ApiKey.API_VERSIONS, opened_count + 2)
        with (
            delivery_timeout(producer, 0.05),
            pytest.raises(DeliveryTimedOutError, match=r"0 times \(last error: the connection"),
        ):
            await sending
        cluster.heal(ApiKey.API_VERSIONS)
    assert log.values() == []


async def test_retries_are_limited(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, *[Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3)
    async with Producer(cluster.bootstrap, retries=2, **FAST) as producer:
        with pytest.raises(BrokerError) as caught:
            await producer.send_and_wait("t", b"v")
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(cluster.seen(ApiKey.PRODUCE)) == 3


async def test_a_permanent_refusal_is_raised_at_once_and_logged_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
    with caplog.at_level(logging.WARNING, "ottla"):
        async with Producer(cluster.bootstrap, linger_ms=10) as producer:
            deliveries = [await producer.send("t", b"bad") for _ in range(3)]
            for delivery in deliveries:
                with pytest.raises(BrokerError, match="as scripted"):
                    await delivery
            await producer.send_and_wait("t", b"good")
    assert log.values() == [b"good"]
    assert [record.message.split()[0] for record in caplog.records] == ["batch.failed"]


@pytest.mark.parametrize(
    ("owner", "name", "refusal"),
    [
        (ProducerBatch, "payload", None),
        (ProducerBatch, "complete", None),
        (Accumulator, "done", None),
        (sender, "judge", Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)),
        (sender, "judge", LoseResponse()),
        (Accumulator, "split", Refuse(ErrorCode.MESSAGE_TOO_LARGE)),
    ],
)
@pytest.mark.parametrize("is_idempotent", [True, False])
async def test_an_error_inside_the_producer_fails_one_batch_at_once(
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    refusal: Fault | None,
    is_idempotent: bool,
) -> None:
    cluster.create("t", [0, 0])
    async with Producer(
        cluster.bootstrap, enable_idempotence=is_idempotent, linger_ms=20, **FAST
    ) as producer:
        for partition in (0, 1):
            await producer.send_and_wait("t", b"before", partition=partition)
        monkeypatch.setattr(owner, name, raising_once(getattr(owner, name)))
        if refusal is not None:
            cluster.script(ApiKey.PRODUCE, refusal)
        async with asyncio.timeout(20):
            failed = [await producer.send("t", b"failed", partition=0) for _ in range(2)]
            others = [await producer.send("t", b"other", partition=1) for _ in range(2)]
            for delivery in failed:
                with pytest.raises(ProduceError, match="RuntimeError inside this client: a defect"):
                    await delivery
            await asyncio.gather(*others)
            await producer.send_and_wait("t", b"after", partition=0)
            await producer.flush()
        assert producer.metrics()["buffer-available-bytes"] == 32 * MIB


async def test_a_batch_that_the_broker_finds_too_large_is_split(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, *[Refuse(ErrorCode.MESSAGE_TOO_LARGE)] * 3)
    async with Producer(cluster.bootstrap, linger_ms=10, compression="lz4") as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(8)]
        offsets = [(await delivery).offset for delivery in deliveries]
    assert log.values() == [b"%d" % number for number in range(8)]
    assert offsets == list(range(8))
    assert len(log.batches) > 2


async def test_a_batch_of_uneven_records_is_split_again(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, *[Refuse(ErrorCode.MESSAGE_TOO_LARGE)] * 3)
    values = [b"x" * 10_000, b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    async with Producer(cluster.bootstrap, linger_ms=10) as producer:
        deliveries = [await producer.send("t", value) for value in values]
        async with asyncio.timeout(10):
            offsets = [(await delivery).offset for delivery in deliveries]
    assert log.values() == values
    assert offsets == list(range(8))


async def test_records_of_a_lost_response_are_not_written_again_in_smaller_batches(
    cluster: FakeCluster,
) -> None:
    """The topic's limit is lowered between the two attempts."""
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, LoseResponse(), Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    async with Producer(cluster.bootstrap, linger_ms=10, **FAST) as producer:
        deliveries = [await producer.send("t", b"%d" % number) for number in range(4)]
        for delivery in deliveries:
            with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
                await delivery
        await producer.send_and_wait("t", b"next")
    assert log.values() == [b"0", b"1", b"2", b"3", b"next"]


async def test_a_single_record_that_the_broker_finds_too_large_fails(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(BrokerError, match=r"max\.message\.bytes"):
            await producer.send_and_wait("t", b"v")


async def test_a_record_beyond_the_limits_is_refused_before_it_is_sent(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap, max_request_bytes=1_000) as producer:
        with pytest.raises(RecordTooLargeError, match="1000"):
            await producer.send("t", b"x" * 1_000)
    assert not cluster.seen(ApiKey.PRODUCE)


async def test_a_record_larger_than_a_batch_is_sent_alone(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, batch_size_bytes=100) as producer:
        await producer.send("t", b"small")
        await producer.send("t", b"x" * 5_000)
        await producer.send("t", b"small")
    assert [len(value or b"") for value in log.values()] == [5, 5_000, 5]


@pytest.mark.parametrize(
    "interceptors", [5, "", ProducerInterceptor()], ids=["number", "text", "single"]
)
def test_interceptors_that_are_no_list_are_named(interceptors: Any) -> None:
    with pytest.raises(ConfigurationError, match="interceptors must be a list"):
        Producer("localhost", interceptors=interceptors)


async def test_an_invalid_record_is_refused_without_side_effects(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=5) as producer:
        with pytest.raises(TypeError, match="value must be bytes"):
            await producer.send("t", "text")
        await producer.send("t", b"good")
        with pytest.raises(TypeError, match="value must be bytes or None, got str 'text'"):
            await producer.send("t", "text")
        with pytest.raises(TypeError, match="header's value must be bytes"):
            await producer.send("t", b"v", headers=[("h", "text")])  # type: ignore[list-item]
        once: Any = (pair for pair in [("h", b"v")])
        with pytest.raises(TypeError, match="headers must be a list of pairs"):
            await producer.send("t", b"v", headers=once)
        text: Any = "text"
        with pytest.raises(TypeError, match="key must be bytes or None, got str 'text'"):
            producer.send_nowait("t", b"v", key=text)
        with pytest.raises(TypeError, match="header's key must be str"):
            await producer.send("t", b"v", headers=[(b"h", b"v")])  # type: ignore[list-item]
        await producer.send("t", b"good")
        with pytest.raises(TypeError):
            producer.send_nowait("t", "text")
        for timestamp_ms in (-1, 2**63 - 1, 2**63):
            with pytest.raises(ValueError, match=str(timestamp_ms)):
                await producer.send("t", b"v", timestamp_ms=timestamp_ms)
    assert log.values() == [b"good", b"good"]


@pytest.mark.parametrize("is_hooked", [False, True])
@pytest.mark.parametrize("name", [None, b"t", 5, ["t"], {"t"}, "\ud800", ""], ids=ascii)
async def test_an_invalid_topic_name_is_refused_at_once(
    cluster: FakeCluster, name: Any, *, is_hooked: bool
) -> None:
    cluster.create("t")
    serializer = bytes if is_hooked else None
    async with Producer(cluster.bootstrap, value_serializer=serializer) as producer:
        with pytest.raises(ConfigurationError, match="a topic's name must "):
            await producer.send(name, b"v")
        with pytest.raises(ConfigurationError, match="a topic's name must "):
            producer.send_nowait(name, b"v")
        with pytest.raises(ConfigurationError, match="a topic's name must "):
            await producer.partitions(name)
        assert (await producer.send_and_wait("t", b"good")).offset == 0


async def test_invalid_numbers_of_a_record_are_refused_at_once(cluster: FakeCluster) -> None:
    (log, _) = cluster.create("t", [0, 0])
    wrong: Any
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("t", b"before", partition=0)
        for send in (producer.send, producer.send_nowait):
            for wrong in ("0", 0.0, nan, True, [0]):
                with pytest.raises(ConfigurationError, match="partition must be a whole number"):
                    await send("t", b"v", partition=wrong)
            for wrong in ("5", 5.0, nan, True, [5]):
                with pytest.raises(ConfigurationError, match="timestamp_ms must be a whole number"):
                    await send("t", b"v", timestamp_ms=wrong)
        for wrong in (-1, nan, inf, "5"):
            with pytest.raises(ConfigurationError, match="timeout_ms must be "):
                await producer.close(timeout_ms=wrong)
        await producer.send_and_wait("t", b"after", partition=0, timestamp_ms=5)
    assert log.values() == [b"before", b"after"]


async def test_a_header_without_utf_8_encoding_leaves_an_open_batch_whole(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=50) as producer:
        await producer.send("t", b"before", headers=[("ok", b"1")])
        for send in (producer.send, producer.send_nowait):
            with pytest.raises(ValueError, match="header's key must be text in UTF-8"):
                await send("t", b"v", headers=[("ok", b"1"), ("\ud800", b"2")])
        await producer.send("t", b"after")
    assert log.values() == [b"before", b"after"]


async def test_an_unknown_topic_is_reported_after_max_block(cluster: FakeCluster) -> None:
    async with Producer(cluster.bootstrap, max_block_ms=50, **FAST) as producer:
        with pytest.raises(UnknownTopicError, match="Create the topic"):
            await producer.send("nowhere", b"v")


async def test_the_producer_waits_for_a_topic_to_appear(cluster: FakeCluster) -> None:
    async with Producer(cluster.bootstrap, **FAST) as producer:
        sending = asyncio.ensure_future(producer.send_and_wait("late", b"v"))
        await cluster.wait_for(ApiKey.METADATA, 3)
        cluster.create("late")
        assert (await sending).offset == 0


async def test_an_illegal_topic_is_reported_at_once(cluster: FakeCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        cluster.script(ApiKey.METADATA, Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION))
        with pytest.raises(BrokerError, match="letters, digits"):
            await producer.send("bad name", b"v")


async def test_an_unknown_partition_is_reported(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(UnknownPartitionError, match="no partition 1"):
            await producer.send("t", b"v", partition=1)
        with pytest.raises(UnknownPartitionError):
            producer.send_nowait("t", b"v", partition=-1)
        assert (await producer.send_and_wait("t", b"v", partition=0)).offset == 0


async def test_the_producer_recovers_from_a_topic_that_was_hidden_for_a_while(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        assert (await producer.send_and_wait("t", b"0")).offset == 0
        hidden = Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        cluster.script(ApiKey.METADATA, hidden, hidden, hidden)
        with pytest.raises(UnknownPartitionError, match="no partition 1"):
            await producer.send("t", b"v", partition=1)
        with pytest.raises(NotAuthorizedError):
            await producer.partitions("t")
        cluster.heal(ApiKey.METADATA)
        async with asyncio.timeout(20):
            assert (await producer.send_and_wait("t", b"1")).offset == 1


async def test_the_producer_finds_an_added_partition(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("t", b"v", partition=0)
        cluster.create("t", [0, 0])
        assert (await producer.send_and_wait("t", b"v", partition=1)).partition == 1
        assert await producer.partitions("t") == [0, 1]


async def test_send_nowait_accepts_records_while_there_is_room(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    async with Producer(
        cluster.bootstrap, batch_size_bytes=100, buffer_memory_bytes=300
    ) as producer:
        with pytest.raises(BufferFullError, match="not sent to before"):
            producer.send_nowait("t", b"v")
        await producer.send("t", b"first")
        await cluster.wait_for(ApiKey.PRODUCE)
        accepted = 1
        with suppress(BufferFullError):
            for _ in range(100):
                producer.send_nowait("t", b"v")
                accepted += 1
        with pytest.raises(BufferFullError, match="no memory"):
            producer.send_nowait("t", b"v")
        release.set()
    assert 2 < accepted < 20
    assert len(log.values()) == accepted


async def test_send_waits_while_the_buffer_is_full(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    async with Producer(
        cluster.bootstrap, batch_size_bytes=100, buffer_memory_bytes=300
    ) as producer:
        sent = 0

        async def send_all() -> None:
            nonlocal sent
            for number in range(100):
                await producer.send("t", b"%d" % number)
                sent += 1

        sending = asyncio.ensure_future(send_all())
        await cluster.wait_for(ApiKey.PRODUCE)
        await until(lambda: producer._accumulator.budget.is_exhausted, "a full buffer")
        # Each record takes eight bytes at least.
        assert sent <= 300 // 8
        release.set()
        await sending
    assert log.values() == [b"%d" % number for number in range(100)]


async def test_a_buffer_that_stays_full_is_reported(cluster: FakeCluster) -> None:
    cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    async with Producer(
        cluster.bootstrap, batch_size_bytes=100, buffer_memory_bytes=300, max_block_ms=30
    ) as producer:

        async def send_many() -> None:
            for _ in range(100):
                await producer.send("t", b"v")

        with pytest.raises(BufferFullError, match="buffer_memory_bytes"):
            await send_many()
        release.set()


async def test_close_sends_the_remaining_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    producer = Producer(cluster.bootstrap, linger_ms=60_000)
    await producer.start()
    delivery = await producer.send("t", b"v")
    await producer.close()
    assert delivery.result().offset == 0
    assert log.values() == [b"v"]
    with pytest.raises(ClientClosedError):
        await producer.send("t", b"too late")
    await producer.close()


async def test_a_closed_producer_does_not_start(cluster: FakeCluster) -> None:
    producer = Producer(cluster.bootstrap)
    await producer.close()
    with pytest.raises(ClientClosedError):
        await producer.start()
    await producer.close()


async def test_close_ends_a_start(cluster: FakeCluster) -> None:
    cluster.create("t")
    release = cluster.hold(ApiKey.METADATA)
    producer = Producer(cluster.bootstrap)
    start = asyncio.ensure_future(producer.start())
    await cluster.wait_for(ApiKey.METADATA)
    await producer.close()
    release.set()
    with pytest.raises(ClientClosedError):
        await start
    with pytest.raises(ClientClosedError):
        await producer.send("t", b"v")


async def test_close_gives_up_after_its_timeout(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())
    producer = Producer(cluster.bootstrap)
    await producer.start()
    delivery = await producer.send("t", b"v")
    await cluster.wait_for(ApiKey.PRODUCE)
    await producer.close(timeout_ms=20)
    with pytest.raises(ClientClosedError):
        delivery.result()


async def test_close_fails_blocked_senders(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.PRODUCE, Never())
    producer = Producer(cluster.bootstrap, batch_size_bytes=100, buffer_memory_bytes=200)
    await producer.start()

    async def send_endlessly() -> None:
        while True:
            await producer.send("t", b"v")

    sending = asyncio.ensure_future(send_endlessly())
    await until(lambda: producer._accumulator.budget.is_exhausted, "a full buffer")
    await producer.close(timeout_ms=0)
    with pytest.raises(ClientClosedError):
        await sending


async def test_a_send_that_gets_memory_during_close_fails(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")
    release = cluster.hold(ApiKey.PRODUCE)
    producer = Producer(cluster.bootstrap, batch_size_bytes=200, buffer_memory_bytes=200)
    await producer.start()
    await producer.send("t", b"x" * 60)
    await cluster.wait_for(ApiKey.PRODUCE)
    blocked = asyncio.ensure_future(producer.send("t", b"x" * 60))
    await until(lambda: producer._accumulator.budget.is_exhausted, "a full buffer")
    (batch,) = producer._accumulator.incomplete
    closing = producer.close()
    # The first steps of `close` run after the memory was granted, and before the sender resumes.
    batch.on_done.append(lambda: steps.append(closing.send(None)))
    steps: list[asyncio.Future[None]] = []
    release.set()
    with pytest.raises(ClientClosedError):
        await asyncio.wait_for(blocked, DEADLINE_S)
    assert steps, "the producer was not closed in between"
    closing.close()
    assert producer._cluster is not None
    await producer._cluster.close()


async def test_concurrent_calls_of_close_wait_for_the_same_end(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    producer = Producer(cluster.bootstrap, linger_ms=1_000)
    await producer.start()
    await producer.send("t", b"v")
    await asyncio.gather(producer.close(), producer.close())
    assert log.values() == [b"v"]


async def test_use_outside_of_async_with_is_refused(cluster: FakeCluster) -> None:
    producer = Producer(cluster.bootstrap)
    with pytest.raises(ClientClosedError):
        await producer.send("t", b"v")
    with pytest.raises(ClientClosedError):
        await producer.flush()
    async with producer:
        pass
    with pytest.raises(ClientClosedError):
        await producer.start()


async def test_use_in_another_event_loop_is_refused(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with (
        Producer(cluster.bootstrap) as producer,
        Consumer(cluster.bootstrap) as consumer,
        Admin(cluster.bootstrap) as admin,
    ):
        uses: tuple[Coroutine[object, object, object], ...] = (
            producer.send("t", b"v"),
            consumer.fetch_batch(),
            admin.list_topics(),
        )
        for use in uses:
            with pytest.raises(ClientClosedError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, use)
        assert (await producer.send_and_wait("t", b"v")).offset == 0


async def test_no_broker_is_reported_with_its_address() -> None:
    with pytest.raises(NoBrokerAvailableError, match=r"127\.0\.0\.1:1"):
        async with Producer("127.0.0.1:1"):
            pass


async def test_zstd_needs_a_broker_that_supports_it(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.versions[ApiKey.PRODUCE] = (0, 6)
    async with Producer(cluster.bootstrap, compression="zstd") as producer:
        with pytest.raises(UnsupportedVersionError, match="lz4"):
            await producer.send_and_wait("t", b"v")


def test_settings_out_of_range_are_refused_with_value_and_limit() -> None:
    with pytest.raises(ConfigurationError, match="brotli"):
        Producer("localhost", compression="brotli")
    with pytest.raises(ConfigurationError, match="acks"):
        Producer("localhost", acks=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="buffer_memory_bytes must be within 16384"):
        Producer("localhost", buffer_memory_bytes=1)
