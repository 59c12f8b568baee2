"""Fetch over a real socket: returned records, waiting, and wake-ups."""

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkawire.records import iterate_batches, read_records
from tests.conftest import BrokerProcess
from tests.integration.broker.wire import NOT_HERE, Wire, batch

LONG_WAIT_MS = 120_000
"""Longer than a client waits for a response, which fails a test whose request is not woken."""
names = (f"fetch-{number}" for number in itertools.count())


@pytest.fixture
def other(shared_broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(shared_broker.port) as connected:
        yield connected


@pytest.fixture
def topic(wire: Wire) -> str:
    name = next(names)
    assert wire.create_topic(name, partitions=2).error_code == ErrorCode.NONE
    return name


def values(data: PartitionData) -> list[bytes | None]:
    """Return the values of all records in a response."""
    assert isinstance(data.records, memoryview)
    return [
        record.value for _, found in iterate_batches(data.records) for record in read_records(found)
    ]


def long_poll(
    topic: str, *, partitions: tuple[int, ...] = (0,), min_bytes: int = 1, max_wait_ms: int
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
                    for index in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", range(4, 13))
def test_records_come_back_in_every_version(wire: Wire, topic: str, version: int) -> None:
    wire.produce(topic, batch(b"a", b"b"))
    wire.produce(topic, batch(b"c"))
    data = wire.fetch(topic, 0, version=version)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
    assert values(data) == [b"a", b"b", b"c"]


def test_a_fetch_inside_a_batch_returns_the_whole_batch(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a", b"b"))
    wire.produce(topic, batch(b"c"))
    assert values(wire.fetch(topic, 1)) == [b"a", b"b", b"c"]
    assert values(wire.fetch(topic, 2)) == [b"c"]


def test_a_fetch_at_the_log_end_offset_is_empty(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a"))
    data = wire.fetch(topic, 1)
    assert (data.error_code, values(data), data.log_start_offset) == (ErrorCode.NONE, [], 0)


@pytest.mark.parametrize("offset", [2, 100, -1])
def test_an_offset_outside_the_log_is_refused(wire: Wire, topic: str, offset: int) -> None:
    wire.produce(topic, batch(b"a"))
    assert wire.fetch(topic, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("name", "partition"), [("no-such-topic", 0), (None, 7), (None, -1)])
def test_an_unknown_partition_is_refused(
    wire: Wire, topic: str, name: str | None, partition: int
) -> None:
    answer = wire.fetch(name or topic, 0, partition=partition)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_first_batch_is_whole_for_any_limit(wire: Wire, topic: str) -> None:
    large = batch(b"x" * 50_000)
    for _ in range(3):
        wire.produce(topic, large)
    data = wire.fetch(topic, 0, max_bytes=1)
    assert values(data) == [b"x" * 50_000]
    assert len(values(wire.fetch(topic, 0, max_bytes=2 * len(large)))) == 2


def test_the_limit_of_a_response_applies_to_all_its_partitions(wire: Wire, topic: str) -> None:
    for partition in (0, 1):
        for _ in range(3):
            wire.produce(topic, batch(b"x" * 10_000), partition=partition)
    request = long_poll(topic, partitions=(0, 1), max_wait_ms=0)
    request.max_bytes = 15_000
    response = wire.ask(ApiKey.FETCH, 12, request, FetchResponse)
    assert [len(values(data)) for data in response.responses[0].partitions] == [1, 0]


def test_a_long_poll_is_woken_by_the_next_record(wire: Wire, other: Wire, topic: str) -> None:
    wire.send(ApiKey.FETCH, 12, long_poll(topic, partitions=(0, 1), max_wait_ms=LONG_WAIT_MS))
    other.produce(topic, batch(b"a"), partition=1)
    _, response = wire.receive(ApiKey.FETCH, 12)
    assert isinstance(response, FetchResponse)
    assert [values(data) for data in response.responses[0].partitions] == [[], [b"a"]]


def test_a_long_poll_waits_for_all_its_bytes(wire: Wire, other: Wire, topic: str) -> None:
    record = batch(b"x" * 1000)
    request = long_poll(
        topic, partitions=(0, 1), min_bytes=3 * len(record), max_wait_ms=LONG_WAIT_MS
    )
    wire.send(ApiKey.FETCH, 12, request)
    for partition in (0, 1, 1):
        other.produce(topic, record, partition=partition)
    _, response = wire.receive(ApiKey.FETCH, 12)
    assert isinstance(response, FetchResponse)
    assert [len(values(data)) for data in response.responses[0].partitions] == [1, 2]


@pytest.mark.parametrize("wait_ms", [0, 300])
def test_a_long_poll_ends_empty_after_its_timeout(wire: Wire, topic: str, wait_ms: int) -> None:
    began_s = time.monotonic()
    response = wire.ask(ApiKey.FETCH, 12, long_poll(topic, max_wait_ms=wait_ms), FetchResponse)
    waited_ms = (time.monotonic() - began_s) * 1000
    assert values(response.responses[0].partitions[0]) == []
    assert waited_ms >= wait_ms - 20


def test_a_long_poll_ends_when_its_topic_is_deleted(wire: Wire, other: Wire, topic: str) -> None:
    wire.send(ApiKey.FETCH, 12, long_poll(topic, max_wait_ms=LONG_WAIT_MS))
    deletion = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
    other.ask(ApiKey.DELETE_TOPICS, 5, deletion, DeleteTopicsResponse)
    _, response = wire.receive(ApiKey.FETCH, 12)
    assert isinstance(response, FetchResponse)
    code = response.responses[0].partitions[0].error_code
    assert code in NOT_HERE


def test_a_fetch_of_nothing_is_answered_at_once(wire: Wire) -> None:
    request = FetchRequest(max_wait_ms=LONG_WAIT_MS, min_bytes=1)
    assert wire.ask(ApiKey.FETCH, 12, request, FetchResponse).responses == []


def test_a_vanished_waiting_client_does_not_affect_the_producer(
    shared_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    for _ in range(20):
        with Wire(shared_broker.port) as gone:
            gone.send(ApiKey.FETCH, 12, long_poll(topic, max_wait_ms=LONG_WAIT_MS))
            wire.fetch(topic, 0)
    offsets = [wire.produce(topic, batch(b"a")).base_offset for _ in range(20)]
    assert offsets == list(range(20))


def test_requests_behind_a_long_poll_are_answered_after_it_in_order(
    wire: Wire, other: Wire, topic: str
) -> None:
    poll = wire.send(ApiKey.FETCH, 12, long_poll(topic, max_wait_ms=LONG_WAIT_MS))
    quick = wire.send(ApiKey.FETCH, 12, long_poll(topic, max_wait_ms=0))
    other.produce(topic, batch(b"a"))
    assert [wire.receive(ApiKey.FETCH, 12)[0] for _ in range(2)] == [poll, quick]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_with_another_leader_epoch_is_refused(
    wire: Wire, topic: str, epoch: int, code: ErrorCode
) -> None:
    assert wire.fetch(topic, 0, leader_epoch=epoch).error_code == code


def test_a_diverging_client_gets_the_diverging_epoch(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a", b"b"))
    agrees = wire.fetch(topic, 2, last_fetched_epoch=0)
    unknown = wire.fetch(topic, 2, last_fetched_epoch=9)
    assert (agrees.error_code, agrees.diverging_epoch.epoch) == (ErrorCode.NONE, -1)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    ahead = wire.fetch(topic, 5, last_fetched_epoch=0)
    assert (ahead.error_code, values(ahead)) == (ErrorCode.NONE, [])
    assert (ahead.diverging_epoch.epoch, ahead.diverging_epoch.end_offset) == (0, 2)


@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, [])])
def test_a_read_committed_fetch_lists_no_aborted_transactions(
    wire: Wire, topic: str, isolation_level: int, aborted: list[object] | None
) -> None:
    data = wire.fetch(topic, 0, isolation_level=isolation_level)
    assert data.aborted_transactions == aborted


def test_a_full_fetch_is_answered_without_a_session(wire: Wire, topic: str) -> None:
    request = long_poll(topic, max_wait_ms=0)
    request.session_epoch = -1
    response = wire.ask(ApiKey.FETCH, 12, request, FetchResponse)
    assert (response.error_code, response.session_id, len(response.responses)) == (0, 0, 1)


@pytest.mark.parametrize("version", [7, 12])
def test_a_session_names_only_news(wire: Wire, topic: str, version: int) -> None:
    def ask(request: FetchRequest, session_id: int, session_epoch: int) -> FetchResponse:
        request.session_id, request.session_epoch = session_id, session_epoch
        return wire.ask(ApiKey.FETCH, version, request, FetchResponse)

    first = ask(long_poll(topic, partitions=(0, 1), max_wait_ms=0), 0, 0)
    session_id = first.session_id
    assert session_id > 0
    assert [each.partition_index for each in first.responses[0].partitions] == [0, 1]
    nothing = FetchRequest(max_wait_ms=0, min_bytes=1)
    assert ask(nothing, session_id, 1).responses == []
    wire.produce(topic, batch(b"a"), partition=1)
    (found,) = ask(nothing, session_id, 2).responses
    (data,) = found.partitions
    assert (data.partition_index, values(data)) == (1, [b"a"])
    # The position in the session stays until the consumer names another one.
    (again,) = ask(nothing, session_id, 3).responses
    assert values(again.partitions[0]) == [b"a"]
    refused = ask(nothing, session_id, 3)
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_fetch_in_an_unknown_session_is_refused(wire: Wire, topic: str) -> None:
    request = long_poll(topic, max_wait_ms=0)
    request.session_id, request.session_epoch = 77, 3
    response = wire.ask(ApiKey.FETCH, 12, request, FetchResponse)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.session_id, response.responses) == (0, [])


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_broker_that_holds_no_replica_may_not_follow(
    wire: Wire, topic: str, leader_epoch: int, code: ErrorCode
) -> None:
    answer = wire.fetch(topic, 0, replica_id=7, leader_epoch=leader_epoch)
    assert answer.error_code == code


def test_an_old_client_is_not_given_a_codec_that_it_cannot_read(wire: Wire) -> None:
    topic = next(names)
    wire.create_topic(topic, compression_type="zstd")
    wire.produce(topic, batch(b"a" * 100))
    old, new = wire.fetch(topic, 0, version=9), wire.fetch(topic, 0, version=10)
    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert values(new) == [b"a" * 100]


def test_a_consumer_never_reads_beyond_the_reported_high_watermark(
    shared_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    stop = threading.Event()

    def produce() -> None:
        with Wire(shared_broker.port) as producer:
            while not stop.is_set():
                producer.produce(topic, batch(b"a", b"b", b"c"))

    writer = threading.Thread(target=produce)
    writer.start()
    try:
        offset = 0
        while offset < 600:
            data = wire.fetch(topic, offset)
            assert isinstance(data.records, memoryview)
            for header, _ in iterate_batches(data.records):
                assert header.base_offset == offset
                offset = header.next_offset
            assert offset <= data.high_watermark
    finally:
        stop.set()
        writer.join()


def test_the_end_offset_of_an_epoch_is_reported(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch(b"a", b"b"))

    def ask(epoch: int, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
        )
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH
        found = wire.ask(key, 4, request, OffsetForLeaderEpochResponse).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert ask(epoch=0) == (ErrorCode.NONE, 0, 2)
    assert ask(epoch=5) == (ErrorCode.NONE, -1, -1)
    assert ask(epoch=0, current=9) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ask(epoch=0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


UNKNOWN, MISSING = ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("level", [2, -1, 127])
@pytest.mark.parametrize(
    ("version", "in_response"),
    [(4, ErrorCode.NONE), (6, ErrorCode.NONE), (7, UNKNOWN), (12, UNKNOWN)],
)
def test_a_fetch_with_an_unknown_isolation_level_is_refused(
    wire: Wire, topic: str, level: int, version: int, in_response: ErrorCode
) -> None:
    """The codes are Kafka's; versions below 7 have none for a whole response."""
    wire.produce(topic, batch(b"x"))
    asked = long_poll(topic, partitions=(0, 9), max_wait_ms=LONG_WAIT_MS)
    asked.isolation_level = level
    response = wire.ask(ApiKey.FETCH, version, asked, FetchResponse)
    assert response.error_code == in_response
    found = response.responses[0].partitions
    assert [(each.error_code, each.partition_index) for each in found] == [
        (UNKNOWN, 0),
        (UNKNOWN, 9),
    ]


def test_a_fetch_by_topic_ids_with_an_unknown_isolation_level_is_refused_as_a_whole(
    wire: Wire, topic: str
) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    topic_id = wire.ask(ApiKey.METADATA, 12, request, MetadataResponse).topics[0].topic_id
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0)])
    asked = FetchRequest(isolation_level=2, session_epoch=0, topics=[wanted])
    response = wire.ask(ApiKey.FETCH, 13, asked, FetchResponse)
    assert (response.error_code, response.responses, response.session_id) == (UNKNOWN, [], 0)


@pytest.mark.parametrize(("name", "partitions"), [("missing", (0,)), (None, (9,)), (None, ())])
def test_an_isolation_level_matters_only_to_partitions_that_exist(
    wire: Wire, topic: str, name: str | None, partitions: tuple[int, ...]
) -> None:
    asked = long_poll(name or topic, partitions=partitions, max_wait_ms=LONG_WAIT_MS)
    asked.isolation_level = 2
    response = wire.ask(ApiKey.FETCH, 12, asked, FetchResponse)
    found = [each.error_code for one in response.responses for each in one.partitions]
    assert (response.error_code, found) == (ErrorCode.NONE, [MISSING] * len(partitions))
