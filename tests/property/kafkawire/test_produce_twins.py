"""The compiled and the plain codec of Produce agree on any bytes."""

from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import MisfitError
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.plain_codecs import Accepted
from kafkawire.schema import decode, encode
from tests.property.kafkawire.record_strategies import calmly, damaged
from tests.property.kafkawire.twins import agreed, twins_of

TWINS = twins_of("_codecs")

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


def read_by_all(body: bytes, version: int) -> object:
    return agreed(TWINS, lambda twin: twin.decode(ProduceRequest, memoryview(body), version))


@calmly
@given(requests, versions, st.none() | st.just("t"))
def test_both_read_an_encoded_request(
    request: ProduceRequest, version: int, transactional_id: str | None
) -> None:
    request.transactional_id = transactional_id if version >= 3 else None
    assert read_by_all(encode(request, version), version) == request


@calmly
@given(st.data(), requests, versions)
def test_both_refuse_the_same_damage(
    data: st.DataObject, request: ProduceRequest, version: int
) -> None:
    read_by_all(data.draw(damaged(encode(request, version))), version)


@calmly
@given(st.binary(max_size=100), versions)
def test_both_agree_whether_arbitrary_bytes_are_a_request(body: bytes, version: int) -> None:
    read_by_all(body, version)


@calmly
@given(requests.filter(lambda request: request.topic_data), st.integers(3, 11))
def test_a_request_that_is_cut_short_is_refused_by_both(
    request: ProduceRequest, version: int
) -> None:
    body = encode(request, version)
    for size in {0, 1, 5, 8, len(body) // 2, len(body) - 1} - {len(body)}:
        read_by_all(body[:size], version)


@calmly
@given(answers, st.integers(3, 11))
def test_both_encode_the_same_response(
    accepted: list[tuple[str, list[Accepted]]], version: int
) -> None:
    body = agreed(TWINS, lambda twin: twin.encode_accepted(accepted, version))
    assert encode(decode(ProduceResponse, body, version), version) == body


@pytest.mark.parametrize("version", [3, 9, 11])
@pytest.mark.parametrize(
    "topic",
    [("t", [(0, 2**63, -1, 0)]), ("t", [(2**31, 0, -1, 0)]), ("\ud800", []), ("x" * 40_000, [])],
    ids=["offset", "partition", "surrogate", "long"],
)
def test_both_refuse_values_that_do_not_fit(
    version: int, topic: tuple[str, list[Accepted]]
) -> None:
    refusal = agreed(TWINS, lambda twin: twin.encode_accepted([topic], version))
    assert refusal[0] is MisfitError


def test_records_are_views_of_the_request() -> None:
    topic = TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=b"batch")]
    )
    body = bytearray(encode(ProduceRequest(topic_data=[topic]), 9))
    for twin in TWINS:
        read = twin.decode(ProduceRequest, memoryview(body), 9)
        records = read.topic_data[0].partition_data[0].records
        records[0:1] = b"B"
        assert b"Batch" in body
        records[0:1] = b"b"
