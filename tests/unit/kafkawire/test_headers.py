from dataclasses import dataclass

import pytest

from kafkawire import headers
from kafkawire.apis import ApiKey
from kafkawire.errors import DecodeError, EncodeError, ErrorCode
from kafkawire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from kafkawire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkawire.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.primitives import Buffer
from kafkawire.schema import Parts, decode, encode

# The first frame of each client, as captured from the socket.
LIBRDKAFKA_2_16 = (
    "00000043001200030000000100" + "0a6f74746c612d746573740017636f6e666c75656e742d6b61666b612d"
    "707974686f6e16322e31362e312d72646b61666b612d322e31362e3000"
)
AIOKAFKA_0_14 = "00000014001200000000000100" + "0a6f74746c612d74657374"
KAFKA_PYTHON_3_0 = (
    "0000002a001200040000000100" + "0a6f74746c612d74657374000d6b61666b612d707974686f6e"
    "07332e302e313200"
)


@pytest.mark.parametrize(
    ("frame", "version", "software", "software_version"),
    [
        (LIBRDKAFKA_2_16, 3, "confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
        (AIOKAFKA_0_14, 0, "", ""),
        (KAFKA_PYTHON_3_0, 4, "kafka-python", "3.0.12"),
    ],
)
def test_the_first_frame_of_real_clients(
    frame: str, version: int, software: str, software_version: str
) -> None:
    data = memoryview(bytes.fromhex(frame))
    header, start = decode_request_header(data[4:])
    assert header == RequestHeader(ApiKey.API_VERSIONS, version, 1, "ottla-test")
    request = decode(ApiVersionsRequest, data[4 + start :], version)
    assert request == ApiVersionsRequest(
        client_software_name=software, client_software_version=software_version
    )
    assert encode_request(ApiKey.API_VERSIONS, version, 1, "ottla-test", request) == data


def test_response_to_an_unknown_version_of_api_versions() -> None:
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)],
    )
    frame = encode_response(ApiKey.API_VERSIONS, 0, 7, response)
    assert frame.hex() == "00000010" + "00000007" + "0023" + "00000001" + "0012" + "0000" + "0004"


def test_api_versions_response_has_tags_but_its_header_has_none() -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=ApiKey.FETCH, min_version=4, max_version=12)],
        throttle_time_ms=5,
        supported_features=[SupportedFeatureKey(name="f", min_version=1, max_version=2)],
        finalized_features_epoch=3,
        finalized_features=[
            FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)
        ],
        zk_migration_ready=True,
    )
    frame = encode_response(ApiKey.API_VERSIONS, 3, 7, response)
    body = (
        ("0000" + "02" + "0001" + "0004" + "000c" + "00" + "00000005")
        + ("04" + "00" + "08" + "02" + "0266" + "0001" + "0002" + "00")
        + ("01" + "08" + "0000000000000003")
        + ("02" + "08" + "02" + "0266" + "0002" + "0001" + "00")
        + ("03" + "01" + "01")
    )
    assert frame[4:].hex() == "00000007" + body
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_response_header(ApiKey.API_VERSIONS, 3, frame[4:]) == (7, 4)


@pytest.mark.parametrize(
    ("api_key", "version", "client_id", "header"),
    [
        pytest.param(ApiKey.METADATA, 1, "ab", "0003000100000005" + "00026162", id="v1"),
        pytest.param(ApiKey.METADATA, 1, None, "0003000100000005" + "ffff", id="v1, no client id"),
        pytest.param(ApiKey.METADATA, 12, "ab", "0003000c00000005" + "00026162" + "00", id="v2"),
        pytest.param(ApiKey.METADATA, 12, None, "0003000c00000005" + "ffff" + "00", id="v2, none"),
        pytest.param(ApiKey.METADATA, 12, "", "0003000c00000005" + "0000" + "00", id="v2, empty"),
    ],
)
def test_request_headers_byte_for_byte(
    api_key: ApiKey, version: int, client_id: str | None, header: str
) -> None:
    message = MetadataRequest()
    frame = encode_request(api_key, version, 5, client_id, message)
    assert frame[4:] == bytes.fromhex(header) + encode(message, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    decoded, start = decode_request_header(frame[4:])
    assert decoded == RequestHeader(api_key, version, 5, client_id)
    assert start == len(header) // 2


def test_the_oldest_controlled_shutdown_has_no_client_id() -> None:
    message = ControlledShutdownRequest(broker_id=0x7FFF0102)
    frame = encode_request(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, "dropped", message)
    assert frame.hex() == "0000000c" + "0007" + "0000" + "00000005" + "7fff0102"
    header, start = decode_request_header(frame[4:])
    assert header == RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, None)
    assert decode(ControlledShutdownRequest, frame[4 + start :], 0) == message


@pytest.mark.parametrize(("version", "header"), [(8, "00000005"), (9, "0000000500")])
def test_response_headers_byte_for_byte(version: int, header: str) -> None:
    frame = encode_response(ApiKey.METADATA, version, 5, MetadataResponse())
    assert frame[4:] == bytes.fromhex(header) + encode(MetadataResponse(), version)
    assert decode_response_header(ApiKey.METADATA, version, frame[4:]) == (5, len(header) // 2)


def test_malformed_bytes_of_a_client_id_are_replaced_as_in_kafka() -> None:
    """A client with a name in Latin-1 can connect."""
    frame = bytes.fromhex("0003000100000005" + "0006") + "Zürich".encode("latin-1")
    header, start = decode_request_header(memoryview(frame))
    assert (header.client_id, start) == ("Z\ufffdrich", len(frame))


def test_unknown_tagged_fields_of_headers_are_skipped() -> None:
    request = bytes.fromhex("0003000c00000005" + "ffff" + "02" + "0001ff" + "8001" + "00" + "aa")
    assert decode_request_header(request)[1] == len(request) - 1
    response = bytes.fromhex("00000005" + "01" + "0002ffff" + "aa")
    assert decode_response_header(ApiKey.METADATA, 9, response) == (5, len(response) - 1)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        pytest.param("", "malformed", id="empty"),
        pytest.param("000300010000000500", "malformed", id="too short"),
        pytest.param("7fff00010000000500020000", "API key 32767 is not known", id="unknown API"),
        pytest.param("005700000000000500020000", "API key 87 is not known", id="not declared"),
        pytest.param("ffff00010000000500020000", "API key -1 is not known", id="negative key"),
        pytest.param("000300010000000500036162", "client id has 3 bytes, 2 are left", id="short"),
        pytest.param("0003000100000005fffe", "client id has length -2", id="negative length"),
        pytest.param("0003000c00000005fffe00", "client id has length -2", id="negative, v2"),
        pytest.param(
            "00030001000000054000" + 0x4000 * "ff", "client id has 49152 bytes", id="long text"
        ),
        pytest.param("0003000c00000005ffff", "malformed", id="no tags"),
        pytest.param("0003000c00000005ffff01", "malformed", id="half a tag"),
        pytest.param("0003000c00000005ffff010009aa", "has 9 bytes, 1 are left", id="long tag"),
    ],
)
def test_a_malformed_request_header_is_a_decode_error(frame: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_request_header(memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize("frame", ["", "000000", "00000005", "0000000501"])
def test_a_malformed_response_header_is_a_decode_error(frame: str) -> None:
    with pytest.raises(DecodeError, match="response header is malformed"):
        decode_response_header(ApiKey.METADATA, 9, bytes.fromhex(frame))


@pytest.mark.parametrize(
    ("correlation_id", "client_id"), [(2**31, "a"), (0, "x" * 40000), (0, "\ud800")]
)
def test_a_request_header_that_does_not_fit_is_an_encode_error(
    correlation_id: int, client_id: str
) -> None:
    with pytest.raises(EncodeError, match="request header"):
        encode_request(ApiKey.METADATA, 1, correlation_id, client_id, MetadataRequest())


@pytest.mark.parametrize("correlation_id", [2**31, -(2**31) - 1])
def test_a_response_header_that_does_not_fit_is_an_encode_error(correlation_id: int) -> None:
    with pytest.raises(EncodeError, match="response header"):
        encode_response(ApiKey.METADATA, 1, correlation_id, MetadataResponse())
    with pytest.raises(EncodeError, match="response header"):
        encode_response_parts(ApiKey.METADATA, 9, correlation_id, MetadataResponse())


@dataclass
class Region:
    size_bytes: int


def test_a_frame_whose_size_is_no_int32_is_an_encode_error() -> None:
    class Endless(bytearray):
        def __len__(self) -> int:
            return 2**31 + 4

    with pytest.raises(EncodeError, match="a frame of 2147483652 bytes"):
        headers._sized(Endless(4))


def test_request_parts_are_the_frame() -> None:
    records = bytearray(b"records")
    partition = PartitionProduceData(index=1, records=records)
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )
    parts = encode_request_parts(ApiKey.PRODUCE, 9, 3, "me", request)
    assert parts[1] is records
    assert joined(parts) == encode_request(ApiKey.PRODUCE, 9, 3, "me", request)


def test_response_parts_count_a_region_that_they_do_not_hold() -> None:
    region = Region(1000)
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=region)])
    parts = encode_response_parts(ApiKey.FETCH, 12, 3, FetchResponse(responses=[topic]))
    assert parts[1] is region
    start, end = parts[0], parts[2]
    assert isinstance(start, bytearray)
    assert isinstance(end, bytearray)
    assert int.from_bytes(start[:4], "big") == len(start) + 1000 + len(end) - 4


def joined(parts: Parts) -> bytes:
    assert all(isinstance(part, (bytes, bytearray, memoryview)) for part in parts)
    buffers: list[Buffer] = parts  # type: ignore[assignment]
    return b"".join(buffers)
