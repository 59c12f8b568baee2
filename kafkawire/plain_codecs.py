"""Decision: frames, and the Produce and Fetch messages on the hot path; plain twins (see `native`).

These are the definitions by the general codec in `schema`. The compiled twins `_frames`, `_produce`
and `_fetch` handle the common form of each message, and leave all others to these.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from kafkawire.apis import response_header_version
from kafkawire.headers import RequestHeader, decode_request_header, encode_response_parts
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.primitives import Buffer
from kafkawire.schema import UNLIMITED_ITEMS, Parts, decode, encode

__all__ = [
    "Accepted",
    "accepted_response",
    "decode_fetch",
    "decode_produce",
    "decode_request_header",
    "encode_accepted",
    "encode_fetched",
    "frame_response",
    "split_frames",
]

Accepted: TypeAlias = tuple[int, int, int, int]
"""Partition, base offset, log append time (-1 unless the broker set it), log start offset.

A bare tuple, because creating a named one takes as long as encoding it.
"""

_SIZE: Final = Struct(">i")
_SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
_CORRELATION_ID_BYTES: Final = 4
_NO_TAGGED_FIELDS: Final = b"\0"


def split_frames(
    view: memoryview, start: int, end: int, limit: int, most: int
) -> tuple[list[memoryview], int]:
    """Return the complete frames in `view[start:end]`, without sizes, and the start of the rest.

    Stops after `limit` frames, and before a frame with a size that is negative or above `most`.
    """
    frames: list[memoryview] = []
    while end - start >= _SIZE.size and len(frames) < limit:
        size: int = _SIZE.unpack_from(view, start)[0]
        frame_end = start + _SIZE.size + size
        if not 0 <= size <= most or frame_end > end:
            break
        frames.append(view[start + _SIZE.size : frame_end])
        start = frame_end
    return frames, start


def frame_response(header: RequestHeader, body: bytes) -> bytes:
    """Return the complete response frame for the request with `header`: size, header, `body`."""
    is_flexible = response_header_version(header.api_key, header.api_version) > 0
    tagged_fields = _NO_TAGGED_FIELDS if is_flexible else b""
    size = _CORRELATION_ID_BYTES + len(tagged_fields) + len(body)
    head = _SIZE_AND_CORRELATION_ID.pack(size, header.correlation_id)
    return b"".join((head, tagged_fields, body))


def decode_produce(body: Buffer, version: int, max_items: int = UNLIMITED_ITEMS) -> ProduceRequest:
    """Return the same message as `schema.decode`.

    Raises:
        DecodeError: `body` is not a ProduceRequest of this version; close the connection.
    """
    return decode(ProduceRequest, body, version, max_items)


def encode_accepted(topics: Sequence[tuple[str, Sequence[Accepted]]], version: int) -> bytes:
    """Return the body of a ProduceResponse of version 3 or newer without any error."""
    responses = [
        TopicProduceResponse(
            name=name, partition_responses=[accepted_response(row) for row in rows]
        )
        for name, rows in topics
    ]
    return encode(ProduceResponse(responses=responses), version)


def accepted_response(row: Accepted) -> PartitionProduceResponse:
    """Return the part of a ProduceResponse that reports one accepted batch."""
    partition, base_offset, time_ms, start_offset = row
    return PartitionProduceResponse(
        index=partition,
        base_offset=base_offset,
        log_append_time_ms=time_ms,
        log_start_offset=start_offset,
    )


def decode_fetch(body: Buffer, version: int, max_items: int = UNLIMITED_ITEMS) -> FetchRequest:
    """Return the same message as `schema.decode`.

    Raises:
        DecodeError: `body` is not a FetchRequest of this version; close the connection.
    """
    return decode(FetchRequest, body, version, max_items)


def encode_fetched(header: RequestHeader, message: FetchResponse) -> Parts:
    """Return the response to the Fetch request with `header`, as `encode_response_parts` does.

    Raises:
        EncodeError: a value does not fit its field or this version.
    """
    return encode_response_parts(header.api_key, header.api_version, header.correlation_id, message)
