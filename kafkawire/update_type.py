"""Decision: whether a controller's LeaderAndIsr or UpdateMetadata names all there is (KIP-866)."""

from enum import IntEnum


class UpdateType(IntEnum):
    """The `type` of such a request."""

    UNKNOWN = 0
    """Of a LeaderAndIsr: the first after a registration names all, the others do not. Of an
    UpdateMetadata: it names all, or what has changed since another did."""
    INCREMENTAL = 1
    FULL = 2
