"""Decision: split a buffer into frames, decode their headers, and frame a response.

This is the plain twin of `_frames`, which `frames_scanner` prefers if it was built.
"""

from struct import Struct
from typing import Final

from kafkawire.apis import response_header_version
from kafkawire.headers import RequestHeader, decode_request_header

__all__ = ["INTERFACE_VERSION", "decode_request_header", "frame_response", "split_frames"]

INTERFACE_VERSION: Final = 1
"""Raise this, here and in `_frames`, when a function of both changes."""

_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = _SIZE.size
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
    while end - start >= _SIZE_BYTES and len(frames) < limit:
        size: int = _SIZE.unpack_from(view, start)[0]
        frame_end = start + _SIZE_BYTES + size
        if not 0 <= size <= most or frame_end > end:
            break
        frames.append(view[start + _SIZE_BYTES : frame_end])
        start = frame_end
    return frames, start


def frame_response(header: RequestHeader, body: bytes) -> bytes:
    """Return the complete response frame for the request with `header`: size, header, `body`."""
    is_flexible = response_header_version(header.api_key, header.api_version) > 0
    tagged_fields = _NO_TAGGED_FIELDS if is_flexible else b""
    size = _CORRELATION_ID_BYTES + len(tagged_fields) + len(body)
    head = _SIZE_AND_CORRELATION_ID.pack(size, header.correlation_id)
    return b"".join((head, tagged_fields, body))
