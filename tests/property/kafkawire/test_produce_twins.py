"""The compiled and the plain codec of Produce agree on any bytes."""

from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from kafkawire import plain_codecs
from kafkawire.errors import DecodeError
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.native import compiled
from kafkawire.plain_codecs import Accepted
from kafkawire.schema import decode, encode
from tests.property.kafkawire.record_strategies import calmly, damaged

TWINS: list[ModuleType] = [plain_codecs, *filter(None, [compiled("_produce")])]

MANY = 130
T = TypeVar("T")


def many(one: T) -> list[T]:
    """Repeat an item so often that a varint takes a second byte; drawing each would be slow."""
    return [one] * MANY


versions = st.integers(0, 11)
# Names beyond 127 bytes, where a varint takes a second byte, and with non-ASCII characters.
names = st.text("abc.é€", max_size=200)
partitions = st.builds(
    PartitionProduceData,
    index=st.integers(-(2**31), 2**31 - 1),
    records=st.none() | st.binary(max_size=200),
)
requests = st.builds(
    ProduceRequest,
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=names,
            partition_data=st.lists(partitions, max_size=3) | partitions.map(many),
        ),
        max_size=3,
    ),
)
int64 = st.integers(-(2**63), 2**63 - 1)
rows = st.tuples(st.integers(0, 2**31 - 1), int64, int64, int64)
answers = st.lists(
    st.tuples(names, st.lists(rows, max_size=3) | rows.map(many)),
    max_size=3,
)


def outcome(read: Callable[[memoryview, int], ProduceRequest], body: bytes, version: int) -> object:
    try:
        return read(memoryview(body), version)
    except DecodeError as error:
        return str(error)


def assert_all_read_the_same(body: bytes, version: int) -> None:
    results = [outcome(twin.decode_produce, body, version) for twin in TWINS]
    assert results[0] == results[-1]


@calmly
@given(requests, versions, st.none() | st.just("t"))
def test_both_read_an_encoded_request(
    request: ProduceRequest, version: int, transactional_id: str | None
) -> None:
    request.transactional_id = transactional_id if version >= 3 else None
    body = encode(request, version)
    for twin in TWINS:
        assert twin.decode_produce(memoryview(body), version) == request


@calmly
@given(st.data(), requests, versions)
def test_both_refuse_the_same_damage(
    data: st.DataObject, request: ProduceRequest, version: int
) -> None:
    assert_all_read_the_same(data.draw(damaged(encode(request, version))), version)


@calmly
@given(st.binary(max_size=100), versions)
def test_both_agree_whether_arbitrary_bytes_are_a_request(body: bytes, version: int) -> None:
    assert_all_read_the_same(body, version)


@calmly
@given(requests.filter(lambda request: request.topic_data), st.integers(3, 11))
def test_a_request_that_is_cut_short_is_refused_by_both(
    request: ProduceRequest, version: int
) -> None:
    body = encode(request, version)
    for size in {0, 1, 5, 8, len(body) // 2, len(body) - 1} - {len(body)}:
        assert_all_read_the_same(body[:size], version)


@calmly
@given(answers, st.integers(3, 11))
def test_both_encode_the_same_response(
    accepted: list[tuple[str, list[Accepted]]], version: int
) -> None:
    bodies = [twin.encode_accepted(accepted, version) for twin in TWINS]
    assert bodies[0] == bodies[-1]
    assert encode(decode(ProduceResponse, bodies[-1], version), version) == bodies[-1]


def test_records_are_views_of_the_request() -> None:
    topic = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=b"batch")]
    )
    body = bytearray(encode(ProduceRequest(topic_data=[topic]), 9))
    for twin in TWINS:
        read = twin.decode_produce(memoryview(body), 9)
        records = read.topic_data[0].partition_data[0].records
        records[0:1] = b"B"
        assert b"Batch" in body
        records[0:1] = b"b"
