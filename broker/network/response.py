"""From a reply to the bytes and file regions that leave (decision)."""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol, cast

from broker.network.reply import EncodedMessage
from kafkawire.apis import response_header_version
from kafkawire.headers import RequestHeader, encode_response_parts


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

_SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
_CORRELATION_ID_BYTES: Final = 4
_NO_TAGGED_FIELDS: Final = b"\0"


def encode_answer(header: RequestHeader, message: object) -> list[Part]:
    """Return the response to the request with `header`: one frame, its size included.

    Raises:
        EncodeError: the message does not fit the version of the request: a bug of its handler.
    """
    if isinstance(message, EncodedMessage):
        return [_frame_around(header, message.body)]
    # What a message holds as records is whatever its handler put there: bytes or a file region.
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


def _frame_around(header: RequestHeader, body: bytes) -> bytes:
    is_flexible = response_header_version(header.api_key, header.api_version) > 0
    tagged_fields = _NO_TAGGED_FIELDS if is_flexible else b""
    size_bytes = _CORRELATION_ID_BYTES + len(tagged_fields) + len(body)
    head = _SIZE_AND_CORRELATION_ID.pack(size_bytes, header.correlation_id)
    return b"".join((head, tagged_fields, body))
