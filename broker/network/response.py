"""From a reply to the bytes and file regions that leave (decision)."""

from __future__ import annotations

from typing import Final, Protocol, cast

from broker.network.reply import EncodedMessage
from kafkawire.fetch_scanner import encode_fetched
from kafkawire.frames_scanner import frame_response
from kafkawire.headers import RequestHeader, encode_response_parts
from kafkawire.messages.fetch import FetchResponse


class OpenFile(Protocol):
    """A file that can be read as long as it is referenced, also when it is deleted meanwhile."""

    def fileno(self) -> int:
        """Its descriptor."""


class Region(Protocol):
    """A range of a file that is part of a response."""

    @property
    def file(self) -> OpenFile:
        """Where the bytes are."""

    @property
    def position(self) -> int:
        """First byte."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes, as promised to the client."""


Data = bytes | bytearray | memoryview
Part = Data | Region
# As a tuple: isinstance() takes five times as long with a union.
DATA_TYPES: Final = (bytes, bytearray, memoryview)


def encode_answer(header: RequestHeader, message: object) -> list[Part]:
    """Return the response to the request with `header`: one frame, its size included.

    Raises:
        EncodeError: the message does not fit the version of the request: a bug of its handler.
    """
    if isinstance(message, EncodedMessage):
        return [frame_response(header, message)]
    # What a message holds as records is whatever its handler put there: bytes or a file region.
    if isinstance(message, FetchResponse):
        parts = encode_fetched(header, message)
    else:
        parts = encode_response_parts(
            header.api_key, header.api_version, header.correlation_id, message
        )
    return cast(list[Part], parts)


def bytes_in_memory(parts: list[Part]) -> int:
    """Return the size of those parts that are not regions of files."""
    size_bytes = 0
    for part in parts:
        if isinstance(part, DATA_TYPES):
            size_bytes += len(part)
    return size_bytes
