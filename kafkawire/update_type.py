"""Whether a controller's LeaderAndIsr or UpdateMetadata is a full update (KIP-866) (decision)."""

from enum import IntEnum


class UpdateType(IntEnum):
    """The `type` field of such a request."""

    UNKNOWN = 0
    """A LeaderAndIsr without a type is full if it is the first one after a registration, and
    incremental otherwise. An UpdateMetadata without a type may be either."""
    INCREMENTAL = 1
    FULL = 2
