"""The headers of requests and responses, and complete frames (decision).

On the wire a frame is its size in four bytes, a header, and a message. The version of the header
depends on the API and the version of the message. Flexible messages have headers with tagged
fields, but the client id in these headers keeps its old form.

Source: RequestHeader.json and ResponseHeader.json of Kafka 3.9, KIP-482, KIP-511.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from kafkawire.apis import APIS, ApiKey, request_header_version, response_header_version
from kafkawire.errors import DecodeError, EncodeError
from kafkawire.primitives import (
    Buffer,
    malformed_text,
    records_size_bytes,
    short,
    skip_tags,
)
from kafkawire.schema import Parts, encode_into, encode_parts

_SIZE: Final = Struct(">i")
_CORRELATION_ID: Final = Struct(">i")
_KEY_VERSION_CORRELATION: Final = Struct(">hhi")
_REQUEST_HEAD: Final = Struct(">hhih")
"""Key, version, correlation id, length of the client id."""

_RESPONSE_HEADS: Final = (Struct(">4xi"), Struct(">4xix"))
"""Space for the size, then the correlation id, and in version 1 an empty tagged section."""

_BY_NUMBER: Final = {int(key): api for key, api in APIS.items()}


@dataclass(slots=True)
class RequestHeader:
    """The header of a request.

    It is not frozen, because that would double the cost of creating one per request.
    """

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request frame (without its size), and the start of its message.

    An unknown newer version is accepted and has the newest form of header.

    Raises:
        DecodeError: the header is malformed; or the API is not declared, so that the form of its
            header is unknown. Close the connection.
    """
    try:
        key, version, correlation_id, length = _REQUEST_HEAD.unpack_from(frame)
        api = _BY_NUMBER[key]
        client_id = None
        position = _REQUEST_HEAD.size
        if version == 0 and key == ApiKey.CONTROLLED_SHUTDOWN:
            position = _KEY_VERSION_CORRELATION.size
        elif length >= 0:
            start, position = position, position + length
            if position > len(frame):
                raise short("client id", length, len(frame) - start)
            try:
                client_id = str(frame[start:position], "utf-8")
            except UnicodeDecodeError:
                client_id = malformed_text("client id", frame[start:position])
        elif length < -1:
            raise DecodeError(f"client id has length {length}")
        first_flexible = api.flexible_from
        if first_flexible is not None and version >= first_flexible:
            position = skip_tags(frame, position + 1, frame[position], len(frame))
    except KeyError as error:
        raise DecodeError(f"request header: API key {error} is not known") from None
    except (StructError, IndexError, ValueError) as error:
        raise DecodeError(f"request header is malformed: {error}") from error
    return RequestHeader(api.key, version, correlation_id, client_id), position


def decode_response_header(api_key: ApiKey, version: int, frame: Buffer) -> tuple[int, int]:
    """Return the correlation id of a response frame (without its size), and the message's start.

    Raises:
        DecodeError: the header is malformed.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        position = _CORRELATION_ID.size
        if response_header_version(api_key, version) == 1:
            position = skip_tags(frame, position + 1, frame[position], len(frame))
    except (StructError, IndexError) as error:
        raise DecodeError(f"response header is malformed: {error}") from error
    return correlation_id, position


def encode_request(
    api_key: ApiKey, version: int, correlation_id: int, client_id: str | None, message: object
) -> bytes:
    """Return a complete request frame, including its size.

    Raises:
        EncodeError: a value does not fit its field or this version.
    """
    frame = _request_head(api_key, version, correlation_id, client_id)
    encode_into(frame, message, version)
    return _sized(frame)


def encode_request_parts(
    api_key: ApiKey, version: int, correlation_id: int, client_id: str | None, message: object
) -> Parts:
    """Like `encode_request`, but in pieces: `records` values are passed through uncopied."""
    head = _request_head(api_key, version, correlation_id, client_id)
    return _sized_parts(encode_parts(message, version, head))


def encode_response(api_key: ApiKey, version: int, correlation_id: int, message: object) -> bytes:
    """Return a complete response frame, including its size.

    Raises:
        EncodeError: a value does not fit its field or this version.
    """
    frame = _response_head(api_key, version, correlation_id)
    encode_into(frame, message, version)
    return _sized(frame)


def encode_response_parts(
    api_key: ApiKey, version: int, correlation_id: int, message: object
) -> Parts:
    """Like `encode_response`, but in pieces: `records` values are passed through uncopied."""
    head = _response_head(api_key, version, correlation_id)
    return _sized_parts(encode_parts(message, version, head))


def _request_head(
    api_key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """Return space for the size, and the header."""
    head = bytearray(_SIZE.size)
    header_version = request_header_version(api_key, version)
    try:
        head += _KEY_VERSION_CORRELATION.pack(api_key, version, correlation_id)
        if header_version > 0:
            name = b"" if client_id is None else client_id.encode()
            head += (-1 if client_id is None else len(name)).to_bytes(2, "big", signed=True)
            head += name
    except (StructError, OverflowError, ValueError) as error:
        raise EncodeError(f"request header: {error}") from error
    if header_version > 1:
        head.append(0)
    return head


def _response_head(api_key: ApiKey, version: int, correlation_id: int) -> bytearray:
    """Return space for the size, and the header."""
    head = _RESPONSE_HEADS[response_header_version(api_key, version)]
    try:
        return bytearray(head.pack(correlation_id))
    except StructError as error:
        raise EncodeError(f"response header: {error}") from error


def _sized(frame: bytearray) -> bytes:
    try:
        _SIZE.pack_into(frame, 0, len(frame) - _SIZE.size)
    except StructError as error:
        raise EncodeError(f"a frame of {len(frame)} bytes: its size is an int32") from error
    return bytes(frame)


def _sized_parts(parts: Parts) -> Parts:
    head = parts[0]
    assert isinstance(head, bytearray), "the header comes first"
    size_bytes = len(head) - _SIZE.size
    for part in parts[1:]:
        size_bytes += records_size_bytes(part)
    _SIZE.pack_into(head, 0, size_bytes)
    return parts
