"""Decision: decode Produce requests and encode their responses; the plain twin of `_produce`."""

from typing import Final

from kafkawire.messages.produce import ProduceRequest
from kafkawire.primitives import Buffer
from kafkawire.produce_accepted import Accepted, encode_accepted
from kafkawire.schema import UNLIMITED_ITEMS, decode

__all__ = ["INTERFACE_VERSION", "Accepted", "decode_produce", "encode_accepted"]

INTERFACE_VERSION: Final = 2
"""Raise this, here and in `_produce`, when a function of both changes."""


def decode_produce(body: Buffer, version: int, max_items: int = UNLIMITED_ITEMS) -> ProduceRequest:
    """Return the same message as `schema.decode`.

    Raises:
        DecodeError: `body` is not a ProduceRequest of this version; close the connection.
    """
    return decode(ProduceRequest, body, version, max_items)
