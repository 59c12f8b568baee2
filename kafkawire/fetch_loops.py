"""Decision: Fetch requests read and answered; the plain twin of `_fetch`."""

from typing import Final

from kafkawire.headers import RequestHeader, encode_response_parts
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.primitives import Buffer
from kafkawire.schema import UNLIMITED_ITEMS, Parts, decode

__all__ = ["INTERFACE_VERSION", "decode_fetch", "encode_fetched"]

INTERFACE_VERSION: Final = 2
"""To be raised, here and in `_fetch`, when a function of both changes."""


def decode_fetch(body: Buffer, version: int, max_items: int = UNLIMITED_ITEMS) -> FetchRequest:
    """Return what `schema.decode` does.

    Raises:
        DecodeError: `body` is no FetchRequest of this version; close the connection.
    """
    return decode(FetchRequest, body, version, max_items)


def encode_fetched(header: RequestHeader, message: FetchResponse) -> Parts:
    """Return the answer to the Fetch request with `header`: what `encode_response_parts` does.

    Raises:
        EncodeError: a value does not fit its field or this version.
    """
    return encode_response_parts(header.api_key, header.api_version, header.correlation_id, message)
