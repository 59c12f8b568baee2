"""Frames, and the response to a common Produce request; plain twins (see `native`) (decision).

The compiled twins in `_frames` and `_codecs` handle common values, and leave all others to these.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from kafkawire.apis import response_header_version
from kafkawire.headers import RequestHeader
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.schema import encode

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
