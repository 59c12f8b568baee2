"""The idempotent producer against a cluster that loses responses, forgets and refuses."""

import asyncio

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import ProduceRequest
from kafkawire.records import BatchHeader, read_header
from ottla import Producer
from ottla.client.client_config import Acks
from ottla.client.errors import (
    BrokerError,
    ConfigurationError,
    DeliveryTimedOutError,
    NotAuthorizedError,
    UnsupportedVersionError,
)
from tests.integration.client.client_support import FAST, delivery_timeout
from tests.integration.client.fake_broker import FakeCluster, fake_cluster
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    LoseResponse,
    Never,
    Omit,
    Refuse,
)
from tests.integration.client.fake_log import FakePartition

MAX_EPOCH = 2**15 - 1


def numbers(log: FakePartition) -> list[tuple[int, int, int]]:
    """Return producer id, epoch and base sequence of each batch in the log."""
    headers = [read_header(batch) for batch in log.batches]
    return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers]


def sent_headers(cluster: FakeCluster) -> list[BatchHeader]:
    """Return the header of each batch that arrived, including refused ones."""
    headers = []
    for request in cluster.seen(ApiKey.PRODUCE):
        assert isinstance(request, ProduceRequest)
        for topic in request.topic_data:
            for data in topic.partition_data:
                assert isinstance(data.records, memoryview)
                headers.append(read_header(data.records))
    return headers


async def test_a_lost_response_does_not_write_a_batch_twice(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.PRODUCE, LoseResponse(), LoseResponse())
    async with Producer(cluster.bootstrap, **FAST) as producer:
        written = await producer.send_and_wait("t", b"a")
        assert written.offset == 0
        await producer.send_and_wait("t", b"b")
    assert log.values() == [b"a", b"b"]
    assert numbers(log) == [(1, 0, 0), (1, 0, 1)]


async def test_each_partition_has_its_own_sequence(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0])
    async with Producer(cluster.bootstrap) as producer:
        for number in range(6):
            await producer.send_and_wait("t", b"%d" % number, partition=number % 2)
    for log in logs:
        assert numbers(log) == [(1, 0, 0), (1, 0, 1), (1, 0, 2)]
    assert len(cluster.seen(ApiKey.INIT_PRODUCER_ID)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        HangUp(),
        LoseResponse(),
        Garbage(b"\0\0"),
        Omit(),
    ],
)
async def test_the_request_for_an_id_is_retried(cluster: FakeCluster, fault: Fault) -> None:
    (log,) = cluster.create("t")
    cluster.script(ApiKey.INIT_PRODUCER_ID, fault, fault)
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"a")
    assert log.values() == [b"a"]
    assert numbers(log)[0][0] > 0


async def test_a_refused_id_fails_waiting_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    refusal = Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster.script(ApiKey.INIT_PRODUCER_ID, refusal, refusal)
    async with Producer(cluster.bootstrap, **FAST) as producer:
        # The first refusal may arrive before a record waits for the id; then no record fails.
        outcomes = [
            await asyncio.wait([await producer.send("t", b"%d" % number)]) for number in range(3)
        ]
        errors = [done.pop().exception() for done, _ in outcomes]
    refused = [error for error in errors if error is not None]
    assert {type(error) for error in refused} == {NotAuthorizedError}
    assert "the request for a producer id" in str(refused[0])
    assert errors[-1] is None
    assert len(log.values()) == 3 - len(refused)


async def test_a_broker_without_producer_ids_is_reported_with_a_remedy() -> None:
    async with fake_cluster(versions={ApiKey.INIT_PRODUCER_ID: (9, 9)}) as cluster:
        (log,) = cluster.create("t")
        async with Producer(cluster.bootstrap, **FAST) as producer:
            with pytest.raises(UnsupportedVersionError, match="enable_idempotence=False"):
                await producer.send_and_wait("t", b"a")
        async with Producer(cluster.bootstrap, enable_idempotence=False, **FAST) as producer:
            await producer.send_and_wait("t", b"a")
        assert numbers(log) == [(-1, -1, -1)]


async def test_a_permanently_refused_batch_starts_a_new_epoch(cluster: FakeCluster) -> None:
    """The epoch belongs to the producer, so it changes in every partition."""
    first, second = cluster.create("t", [0, 0])
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"a", partition=0)
        await producer.send_and_wait("t", b"b", partition=1)
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            await producer.send_and_wait("t", b"bad", partition=0)
        for partition in (0, 1):
            await producer.send_and_wait("t", b"c", partition=partition)
            await producer.send_and_wait("t", b"d", partition=partition)
    assert numbers(first) == numbers(second) == [(1, 0, 0), (1, 1, 0), (1, 1, 1)]


async def test_a_batch_that_timed_out_starts_a_new_epoch(cluster: FakeCluster) -> None:
    """The response was lost: the broker has the sequence number, so it must not be reused."""
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"a")
        cluster.script(ApiKey.PRODUCE, LoseResponse(), Never())
        sending = asyncio.ensure_future(producer.send_and_wait("t", b"b"))
        await cluster.wait_for(ApiKey.PRODUCE, 3)
        with delivery_timeout(producer, 0.05), pytest.raises(DeliveryTimedOutError):
            await sending
        # The batch stays in flight as long as its connection.
        cluster.brokers[0].cut()
        await producer.send_and_wait("t", b"c")
    assert log.values() == [b"a", b"b", b"c"]
    assert numbers(log) == [(1, 0, 0), (1, 0, 1), (1, 1, 0)]


async def test_a_new_epoch_bridges_a_gap_that_the_broker_sees(cluster: FakeCluster) -> None:
    """After an unclean election truncated the log, the producer continues in order."""
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=5, batch_size_bytes=80, **FAST) as producer:
        await producer.send_and_wait("t", b"a")
        before = dict(log.producers)
        await producer.send_and_wait("t", b"b")
        log.producers = before
        await asyncio.gather(*[await producer.send("t", b"%d" % number) for number in range(5)])
    assert log.values() == [b"a", b"b", *(b"%d" % number for number in range(5))]
    assert {each[1] for each in numbers(log)[2:]} == {1}
    refused = [each for each in sent_headers(cluster) if each.base_sequence == 2]
    assert refused[0].producer_epoch == 0


async def test_a_duplicate_of_an_old_batch_counts_as_written(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        written = await producer.send_and_wait("t", b"a")
    assert written.offset == -1, "the offset is unknown"


async def test_halves_of_a_batch_divide_its_numbers(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=20, **FAST) as producer:
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
        await asyncio.gather(*[await producer.send("t", b"%d" % number) for number in range(6)])
    assert numbers(log) == [(1, 0, 0), (1, 0, 3)]


async def test_a_half_that_fails_does_not_hold_up_the_other(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, linger_ms=20, **FAST) as producer:
        cluster.script(
            ApiKey.PRODUCE, Refuse(ErrorCode.MESSAGE_TOO_LARGE), Refuse(ErrorCode.INVALID_RECORD)
        )
        sent = [await producer.send("t", b"%d" % number) for number in range(6)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert [isinstance(outcome, BrokerError) for outcome in outcomes] == [True] * 3 + [False] * 3
    assert log.values() == [b"3", b"4", b"5"]
    assert numbers(log) == [(1, 1, 0)]


async def test_after_the_last_epoch_the_producer_gets_a_new_id(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with Producer(cluster.bootstrap, **FAST) as producer:
        await producer.send_and_wait("t", b"a")
        assert producer._sender._sequences is not None
        producer._sender._sequences.adopt(producer._sender._sequences.identity[0], MAX_EPOCH)  # type: ignore[index]
        await producer.send_and_wait("t", b"b")
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
        with pytest.raises(BrokerError):
            await producer.send_and_wait("t", b"bad")
        await producer.send_and_wait("t", b"c")
    assert numbers(log) == [(1, 0, 0), (1, MAX_EPOCH, 0), (2, 0, 0)]


@pytest.mark.parametrize(
    ("acks", "retries", "max_in_flight"), [(1, 9, 5), (0, 9, 5), ("all", 0, 5), ("all", 9, 6)]
)
async def test_settings_that_forbid_idempotence_disable_it_or_are_refused(
    cluster: FakeCluster, acks: Acks, retries: int, max_in_flight: int
) -> None:
    (log,) = cluster.create("t")
    async with Producer(
        cluster.bootstrap, acks=acks, retries=retries, max_in_flight=max_in_flight
    ) as producer:
        await producer.send_and_wait("t", b"a")
        # With acks=0 there is no response; the next request in the connection proves the write.
        await producer.partitions("t")
    if acks != 0:
        assert numbers(log) == [(-1, -1, -1)]
    assert cluster.seen(ApiKey.INIT_PRODUCER_ID) == []
    with pytest.raises(ConfigurationError, match="enable_idempotence needs"):
        Producer(
            cluster.bootstrap,
            acks=acks,
            retries=retries,
            max_in_flight=max_in_flight,
            enable_idempotence=True,
        )
