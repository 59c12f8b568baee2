"""Decision: decode Fetch requests and encode their responses; the plain twin of `_fetch`."""

from typing import Final

from kafkawire.headers import RequestHeader, encode_response_parts
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.primitives import Buffer
from kafkawire.schema import UNLIMITED_ITEMS, Parts, decode

__all__ = ["INTERFACE_VERSION", "decode_fetch", "encode_fetched"]

INTERFACE_VERSION: Final = 2
"""Raise this, here and in `_fetch`, when a function of both changes."""


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
