"""Encoding of responses as frames."""

from __future__ import annotations

import struct

import pytest

from broker.network.reply import EncodedMessage
from broker.network.response import bytes_in_memory, encode_reply
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader, encode_response
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.metadata import MetadataResponse
from kafkawire.schema import encode


class NoFile:
    def fileno(self) -> int:
        raise AssertionError("encoding reads no file")


class Region:
    file = NoFile()
    position = 0
    size_bytes = 1000


def header(api_key: ApiKey, version: int) -> RequestHeader:
    return RequestHeader(api_key, version, 77, "me")


@pytest.mark.parametrize("version", [1, 12], ids=["plain header", "flexible header"])
def test_a_cached_body_becomes_the_same_bytes_as_its_message(version: int) -> None:
    message = MetadataResponse(controller_id=5)
    cached = EncodedMessage(encode(message, version))
    expected = encode_response(ApiKey.METADATA, version, 77, message)
    assert b"".join(encode_reply(header(ApiKey.METADATA, version), message)) == expected  # type: ignore[arg-type]
    assert encode_reply(header(ApiKey.METADATA, version), cached) == [expected]


def test_api_versions_never_gets_a_flexible_header() -> None:
    cached = encode_reply(header(ApiKey.API_VERSIONS, 3), EncodedMessage(b"body"))
    assert cached == [struct.pack(">ii", 8, 77) + b"body"]


def test_regions_are_passed_through_and_counted_in_the_size() -> None:
    region = Region()
    message = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=region)])]
    )
    parts = encode_reply(header(ApiKey.FETCH, 11), message)
    assert [part for part in parts if part is region] == [region]
    in_memory = bytes_in_memory(parts)
    assert isinstance(parts[0], bytearray | bytes)
    assert struct.unpack_from(">i", parts[0]) == (in_memory + 1000 - 4,)
