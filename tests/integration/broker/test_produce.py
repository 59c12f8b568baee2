"""Produce over a real socket: appends, refusals and their error codes."""

import itertools
from struct import pack_into, unpack_from

import pytest
from crc32c import crc32c

from kafkawire.apis import ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.produce import ProduceResponse
from kafkawire.records import TimestampType, read_header, read_records
from tests.integration.broker.wire import NOW_MS, Wire, batch, produce_request

BASE_OFFSET_BYTES = 8
EPOCH = slice(12, 16)
CRC_START = 21
names = (f"produce-{number}" for number in itertools.count())


@pytest.fixture
def topic(wire: Wire) -> str:
    name = next(names)
    assert wire.create_topic(name, partitions=2).error_code == ErrorCode.NONE
    return name


def with_crc(data: bytes | bytearray) -> bytes:
    """Return the modified `data` with a valid checksum."""
    mended = bytearray(data)
    pack_into(">I", mended, 17, crc32c(bytes(mended[CRC_START:])))
    return bytes(mended)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 10))
def test_offsets_are_dense_in_every_version(
    wire: Wire, topic: str, acks: int, version: int
) -> None:
    answers = [wire.produce(topic, batch(b"a", b"b"), acks=acks, version=version) for _ in range(3)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 2),
        (ErrorCode.NONE, 4),
    ]
    assert answers[0].log_append_time_ms == -1


@pytest.mark.parametrize("codec", Codec)
def test_fetched_bytes_equal_sent_bytes_except_offset_and_epoch(
    wire: Wire, topic: str, codec: Codec
) -> None:
    sent = batch(b"first" * 50, b"second" * 50, codec=codec)
    wire.produce(topic, sent)
    wire.produce(topic, sent)
    fetched = wire.fetch(topic, 2).records
    assert isinstance(fetched, memoryview)
    assert unpack_from(">q", fetched)[0] == 2
    assert read_header(fetched).leader_epoch == 0
    assert bytes(fetched[16:]) == sent[16:]
    assert bytes(fetched[BASE_OFFSET_BYTES : EPOCH.start]) == sent[BASE_OFFSET_BYTES : EPOCH.start]


def test_acks_0_gets_no_response_and_keeps_the_order(wire: Wire, topic: str) -> None:
    wire.send(ApiKey.PRODUCE, 9, produce_request([(topic, 0, batch(b"a"))], acks=0))
    answer = wire.produce(topic, batch(b"b"))
    assert answer.base_offset == 1, "the first response belongs to the second request"


@pytest.mark.parametrize("broken", [b"", batch(b"a")[:-1]], ids=["no batch", "half a batch"])
def test_a_failure_with_acks_0_closes_the_connection(wire: Wire, topic: str, broken: bytes) -> None:
    wire.send(ApiKey.PRODUCE, 9, produce_request([(topic, 0, broken)], acks=0))
    assert wire.is_closed()


def test_one_bad_partition_does_not_fail_the_others(wire: Wire, topic: str) -> None:
    good, bad = batch(b"a"), batch(b"a")[:-1] + b"?"
    request = produce_request([(topic, 0, good), (topic, 1, bad), ("unknown", 0, good)], acks=-1)
    response = wire.ask(ApiKey.PRODUCE, 9, request, ProduceResponse)
    assert [
        (answer.partition_responses[0].error_code, answer.partition_responses[0].base_offset)
        for answer in response.responses
    ] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_values_of_acks_are_refused(wire: Wire, topic: str, acks: int) -> None:
    answer = wire.produce(topic, batch(b"a"), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert wire.fetch(topic, 0).high_watermark == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_oldest_versions_are_advertised_and_refused(
    wire: Wire, topic: str, version: int
) -> None:
    answer = wire.produce(topic, batch(b"a"), version=version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert wire.fetch(topic, 0).high_watermark == 0


def changed(position: int, value: int) -> bytes:
    data = bytearray(batch(b"a", b"b"))
    data[position] = value
    return with_crc(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(batch(b"a")[:40], ErrorCode.INVALID_RECORD, id="half a header"),
        pytest.param(batch(b"a") * 2, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(changed(16, 1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(changed(16, 3), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(changed(7, 1), ErrorCode.INVALID_RECORD, id="base offset 1"),
        pytest.param(changed(60, 3), ErrorCode.INVALID_RECORD, id="count of records"),
        pytest.param(changed(26, 5), ErrorCode.INVALID_RECORD, id="last offset delta"),
        pytest.param(changed(22, 0x20), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(changed(22, 0x08), ErrorCode.INVALID_TIMESTAMP, id="log append time"),
        pytest.param(
            batch(b"a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE, id="checksum of other bytes"
        ),
        pytest.param(batch(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
    ],
)
def test_a_malformed_batch_is_refused(
    wire: Wire, topic: str, records: bytes | None, code: ErrorCode
) -> None:
    answer = wire.produce(topic, records)
    assert ErrorCode.__members__[code.name] == answer.error_code
    assert answer.error_message
    assert wire.produce(topic, batch(b"next")).base_offset == 0, "nothing was appended"


def test_a_compacted_topic_names_the_records_without_a_key(wire: Wire) -> None:
    topic = next(names)
    wire.create_topic(topic, cleanup_policy="compact")
    answer = wire.produce(topic, batch(b"a", b"b", b"c", keys=[b"k", None, None]))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert wire.produce(topic, batch(b"a")).error_code == ErrorCode.NONE


def test_timestamps_outside_a_topics_bounds_are_refused(wire: Wire) -> None:
    topic = next(names)
    wire.create_topic(topic, message_timestamp_before_max_ms="1000")
    answer = wire.produce(topic, batch(b"a", timestamp_ms=NOW_MS))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


def test_a_topic_may_stamp_records_with_the_brokers_time(wire: Wire) -> None:
    topic = next(names)
    wire.create_topic(topic, message_timestamp_type="LogAppendTime")
    answer = wire.produce(topic, batch(b"a", timestamp_ms=1))
    assert answer.log_append_time_ms > NOW_MS
    fetched = wire.fetch(topic, 0).records
    assert isinstance(fetched, memoryview)
    header = read_header(fetched)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in read_records(fetched)] == [answer.log_append_time_ms]


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("sent", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name)
def test_a_topic_may_have_its_own_codec(wire: Wire, wanted: str, sent: Codec) -> None:
    topic = next(names)
    wire.create_topic(topic, compression_type=wanted)
    assert wire.produce(topic, batch(b"a" * 500, b"b" * 500, codec=sent)).error_code == 0
    fetched = wire.fetch(topic, 0).records
    assert isinstance(fetched, memoryview)
    codec = Codec.NONE if wanted == "uncompressed" else Codec[wanted.upper()]
    assert read_header(fetched).codec is codec
    assert [record.value for record in read_records(fetched)] == [b"a" * 500, b"b" * 500]


def test_zstd_needs_a_recent_version(wire: Wire, topic: str) -> None:
    data = batch(b"a" * 100, codec=Codec.ZSTD)
    answer = wire.produce(topic, data, version=6)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert wire.produce(topic, data, version=7).error_code == ErrorCode.NONE
    assert wire.produce(topic, b"garbage", version=6).error_code == ErrorCode.CORRUPT_MESSAGE


def test_batches_of_an_idempotent_producer_are_stored_unchanged(wire: Wire, topic: str) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    given = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request, InitProducerIdResponse)
    sent = batch(b"a", b"b", producer_id=given.producer_id)
    assert wire.produce(topic, sent).error_code == ErrorCode.NONE
    fetched = wire.fetch(topic, 0).records
    assert isinstance(fetched, memoryview)
    assert bytes(fetched[16:]) == sent[16:]
    assert read_header(fetched).producer_id == given.producer_id


def test_transactions_without_a_coordinator_are_refused(wire: Wire, topic: str) -> None:
    by_batch = wire.produce(topic, batch(b"a", producer_id=5, is_transactional=True))
    assert by_batch.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert by_batch.error_message == "transactional records need a transactional id"
    named = batch(b"a", producer_id=5, is_transactional=True)
    by_request = wire.produce(topic, named, transactional_id="t")
    assert by_request.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert by_request.error_message == "not verified: COORDINATOR_NOT_AVAILABLE"


def test_clients_may_not_write_to_internal_topics(wire: Wire) -> None:
    wire.create_topic("__consumer_offsets")
    answer = wire.produce("__consumer_offsets", batch(b"a"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    allowed = wire.produce("__consumer_offsets", batch(b"a"), client_id="__admin_client")
    assert allowed.error_code == ErrorCode.NONE


def test_a_hundred_pipelined_requests_are_answered_in_order(wire: Wire, topic: str) -> None:
    sent = [
        wire.send(ApiKey.PRODUCE, 9, produce_request([(topic, 0, batch(b"x"))], acks=-1))
        for _ in range(100)
    ]
    received = [wire.receive(ApiKey.PRODUCE, 9) for _ in sent]
    assert [correlation_id for correlation_id, _ in received] == sent
    offsets = [
        response.responses[0].partition_responses[0].base_offset
        for _, response in received
        if isinstance(response, ProduceResponse)
    ]
    assert offsets == list(range(100))
