"""Encodes a reply to bytes and file regions (decision)."""

from __future__ import annotations

from typing import Final, Protocol, cast

from broker.network.reply import EncodedMessage
from kafkawire.fetch_scanner import encode_fetched
from kafkawire.frames_scanner import frame_response
from kafkawire.headers import RequestHeader, encode_response_parts
from kafkawire.messages.fetch import FetchResponse


class OpenFile(Protocol):
    """A file that stays readable while it is referenced, even if it is deleted meanwhile."""

    def fileno(self) -> int:
        """File descriptor."""


class Region(Protocol):
    """A range of a file that is part of a response."""

    @property
    def file(self) -> OpenFile:
        """File that holds the bytes."""

    @property
    def position(self) -> int:
        """Position of the first byte."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes promised to the client."""


Data = bytes | bytearray | memoryview
Part = Data | Region
# A tuple, because isinstance() takes five times as long with a union.
DATA_TYPES: Final = (bytes, bytearray, memoryview)


def encode_reply(header: RequestHeader, message: object) -> list[Part]:
    """Return the response to the request with `header`: one frame, including its size field.

    Raises:
        EncodeError: the message does not fit the request's version: a bug of the handler.
    """
    if isinstance(message, EncodedMessage):
        return [frame_response(header, message)]
    # The records of a message are bytes or a file region, as chosen by its handler.
    if isinstance(message, FetchResponse):
        parts = encode_fetched(header, message)
    else:
        parts = encode_response_parts(
            header.api_key, header.api_version, header.correlation_id, message
        )
    return cast(list[Part], parts)


def bytes_in_memory(parts: list[Part]) -> int:
    """Return the total size of the parts that are not file regions."""
    size_bytes = 0
    for part in parts:
        if isinstance(part, DATA_TYPES):
            size_bytes += len(part)
    return size_bytes
