"""The compiled and the plain codec of Fetch agree on any bytes."""

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.apis import ApiKey
from kafkawire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from kafkawire.primitives import Records
from kafkawire.schema import Parts, decode, encode
from tests.property.kafkawire.record_strategies import calmly, damaged
from tests.property.kafkawire.twins import agreed, twins_of

TWINS = twins_of("_codecs")

# Enough of them that a varint takes a second byte.
MANY = 130
FIRST_VERSION, LAST_VERSION = 4, 17
FLEXIBLE_FROM = 12
versions = st.integers(FIRST_VERSION, LAST_VERSION)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text("abc.é€", max_size=200)
ids = st.uuids()


@dataclass
class OpenRegion:
    """Records outside of memory."""

    size_bytes: int


@st.composite
def requests(draw: st.DrawFn, version: int) -> FetchRequest:
    """Draw a request as clients send it: only with fields of its version."""
    partitions = st.builds(
        FetchPartition,
        partition=int32,
        current_leader_epoch=int32 if version >= 9 else st.just(-1),
        fetch_offset=int64,
        last_fetched_epoch=int32 if version >= 12 else st.just(-1),
        log_start_offset=int64 if version >= 5 else st.just(-1),
        partition_max_bytes=int32,
        replica_directory_id=ids if version >= 17 and draw(st.booleans()) else zero_ids(),
    )
    topic = names_of(version)
    topics = st.builds(
        FetchTopic,
        **topic,
        partitions=st.lists(partitions, max_size=3) | partitions.map(lambda one: [one] * MANY),
    )
    forgotten = st.lists(
        st.builds(ForgottenTopic, **topic, partitions=st.lists(int32, max_size=3)), max_size=2
    )
    request = FetchRequest(
        replica_id=draw(int32) if version <= 14 else -1,
        max_wait_ms=draw(int32),
        min_bytes=draw(int32),
        max_bytes=draw(int32),
        isolation_level=draw(st.integers(-128, 127)),
        topics=draw(st.lists(topics, max_size=3)),
    )
    if version >= 7:
        request.session_id = draw(int32)
        request.session_epoch = draw(int32)
        request.forgotten_topics_data = draw(forgotten)
    if version >= 11:
        request.rack_id = draw(names)
    if version >= 12 and draw(st.booleans()):
        request.cluster_id = draw(names)
    if version >= 15 and draw(st.booleans()):
        request.replica_state = ReplicaState(replica_id=3, replica_epoch=7)
    return request


def zero_ids() -> st.SearchStrategy[uuid.UUID]:
    return st.just(uuid.UUID(int=0))


def names_of(version: int) -> dict[str, st.SearchStrategy[object]]:
    if version <= 12:
        return {"topic": names}
    return {"topic_id": ids}


records: st.SearchStrategy[Records | None] = (
    st.none()
    | st.binary(max_size=300)
    | st.binary(max_size=300).map(bytearray)
    | st.binary(max_size=300).map(lambda each: memoryview(each))
    | st.integers(0, 2**20).map(OpenRegion)
)
data = st.builds(
    PartitionData,
    partition_index=int32,
    error_code=st.integers(-(2**15), 2**15 - 1),
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted_transactions=st.none()
    | st.just([])
    | st.lists(st.builds(AbortedTransaction, producer_id=int64, first_offset=int64), max_size=2),
    records=records,
)
responses = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=st.integers(-(2**15), 2**15 - 1),
    responses=st.lists(
        st.builds(
            FetchableTopicResponse,
            topic=names,
            topic_id=ids,
            partitions=st.lists(data, max_size=3) | data.map(lambda one: [one] * MANY),
        ),
        max_size=3,
    ),
)


def read_by_all(body: bytes, version: int) -> Any:
    return agreed(TWINS, lambda twin: twin.decode(FetchRequest, memoryview(body), version))


def answer_of_all(message: FetchResponse, version: int) -> object:
    """Return the joined bytes between the regions, and the regions; or the error."""
    arguments = ApiKey.FETCH, version, 2**31 - 5, message
    return agreed(TWINS, lambda twin: pieces(twin.encode_response_parts(*arguments)))


def pieces(parts: Parts) -> list[bytes | Records]:
    found: list[bytes | Records] = []
    for part in parts:
        if not isinstance(part, (bytes, bytearray, memoryview)):
            found.append(part)
        elif found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(bytes(part))
    return found


@calmly
@given(st.data(), versions)
def test_both_read_an_encoded_request(source: st.DataObject, version: int) -> None:
    request = source.draw(requests(version))
    body = encode(request, version)
    read = read_by_all(body, version)
    assert read == request
    assert encode(read, version) == body


@calmly
@given(st.data(), versions)
def test_both_refuse_the_same_damage(source: st.DataObject, version: int) -> None:
    body = encode(source.draw(requests(version)), version)
    read_by_all(source.draw(damaged(body)), version)


@calmly
@given(st.binary(max_size=100), st.integers(0, LAST_VERSION + 1))
def test_both_agree_whether_arbitrary_bytes_are_a_request(body: bytes, version: int) -> None:
    read_by_all(body, version)


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
def test_a_request_that_is_cut_short_is_refused_by_both(version: int) -> None:
    topic = FetchTopic(partitions=[FetchPartition(partition=1)] * 2)
    request = FetchRequest(topics=[topic])
    if version >= 7:
        request.forgotten_topics_data = [ForgottenTopic(partitions=[1, 2])]
    body = encode(request, version)
    for size in range(len(body)):
        read_by_all(body[:size], version)
    read_by_all(body + b"\0", version)


@calmly
@given(responses, versions, st.integers(0, 2**31 - 1), st.integers(-1, 3))
def test_both_encode_the_same_response(
    message: FetchResponse, version: int, session_id: int, preferred_read_replica: int
) -> None:
    message.session_id = session_id if version >= 7 else 0
    if version >= 11:
        for topic in message.responses:
            for each in topic.partitions:
                each.preferred_read_replica = preferred_read_replica
    answer_of_all(message, version)


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
@pytest.mark.parametrize(
    "partition",
    [
        PartitionData(records=b"batch", diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
        PartitionData(records=b"batch", diverging_epoch=EpochEndOffset()),
        PartitionData(records=b"batch", current_leader=LeaderIdAndEpoch(leader_id=1)),
        PartitionData(records=b"batch", snapshot_id=SnapshotId(end_offset=1, epoch=2)),
        PartitionData(records=b"batch", preferred_read_replica=3),
        PartitionData(records=b"batch", aborted_transactions=[AbortedTransaction()]),
    ],
    ids=range(6),
)
def test_both_encode_or_refuse_rare_fields(version: int, partition: PartitionData) -> None:
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    answer_of_all(FetchResponse(responses=[topic]), version)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize(
    "wrong",
    [
        FetchResponse(session_id=1),
        FetchResponse(node_endpoints=[NodeEndpoint(node_id=1, host="h", port=2)]),
        FetchResponse(throttle_time_ms=2**31),
        FetchResponse(error_code=2**15),
        FetchResponse(responses=[FetchableTopicResponse(topic="x" * 40_000)]),
        FetchResponse(responses=[FetchableTopicResponse(topic="\ud800")]),
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t", partitions=[PartitionData(high_watermark=2**63, records=b"")]
                )
            ]
        ),
    ],
    ids=range(7),
)
def test_both_refuse_values_that_do_not_fit(version: int, wrong: FetchResponse) -> None:
    answer_of_all(wrong, version)


def test_response_is_the_message_with_its_size_and_header() -> None:
    partition = PartitionData(partition_index=1, high_watermark=9, records=b"batch")
    topic = FetchableTopicResponse(topic="topic", partitions=[partition, partition])
    message = FetchResponse(responses=[topic, topic])
    for version in range(FIRST_VERSION, 13):
        for twin in TWINS:
            parts = twin.encode_response_parts(ApiKey.FETCH, version, 77, message)
            frame = b"".join(bytes(part) for part in parts)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            assert int.from_bytes(frame[4:8], "big") == 77
            body = frame[9 if version >= FLEXIBLE_FROM else 8 :]
            assert decode(FetchResponse, body, version) == message


def test_records_are_passed_through_uncopied() -> None:
    region = OpenRegion(1000)
    partitions = [PartitionData(records=b""), PartitionData(records=region), PartitionData()]
    topic = FetchableTopicResponse(topic="t", partitions=partitions)
    for twin in TWINS:
        response = FetchResponse(responses=[topic])
        parts = twin.encode_response_parts(ApiKey.FETCH, 12, 1, response)
        assert [part for part in parts if part is region] == [region]
        assert len(parts) == 3
