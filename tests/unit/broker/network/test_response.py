"""Responses are encoded as frames and sent in request order."""

from __future__ import annotations

import itertools
import struct
from collections import deque
from typing import cast

import pytest

from broker.network.metrics import NetworkMetrics
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Connection, ConnectionQueue, Request
from broker.network.response import ResponseBatch, bytes_in_memory, encode_reply
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader, encode_response
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.metadata import MetadataResponse
from kafkawire.schema import encode
from tests.unit.broker.network_fakes import make_request

ANSWER = EncodedMessage(b"answer")
NO_QUEUE = ConnectionQueue(cast(Connection, None))


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


# Order of responses.


def queue_of(*replies: Reply) -> deque[Request]:
    queue: deque[Request] = deque()
    for number, reply in enumerate(replies):
        request = make_request(NO_QUEUE, number)
        request.reply = reply
        queue.append(request)
    return queue


def sent(queue: deque[Request]) -> list[int]:
    """Return the correlation ids of the responses that are sent now."""
    parts = ResponseBatch(queue, NetworkMetrics(), 0.0).parts
    return [struct.unpack_from(">ii", cast(bytes, part))[1] for part in parts]


def test_a_request_that_was_not_handled_has_no_response() -> None:
    queue = deque([make_request(NO_QUEUE)])
    assert sent(queue) == []
    assert len(queue) == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_responses_are_in_request_order_for_any_order_of_completion(order: list[int]) -> None:
    replies = [Reply() for _ in range(4)]
    queue = queue_of(*replies)
    left: list[int] = []
    for number in order:
        replies[number].complete(ANSWER)
        left += sent(queue)
        complete = [reply.is_done for reply in replies]
        assert left == list(range([*complete, False].index(False)))
    assert left == [0, 1, 2, 3]


def test_a_request_without_response_keeps_its_place() -> None:
    queue = queue_of(Reply(), Reply.none(), Reply(ANSWER))
    assert sent(queue) == []
    queue[0].reply.complete(ANSWER)
    assert sent(queue) == [0, 2]
    assert not queue
