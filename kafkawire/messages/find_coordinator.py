"""Declares FindCoordinator, for the coordinator of a group or a transactional id (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import INT8, INT16, INT32, STRING, array, field, message, since, struct


@message(versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    """Request for the coordinators of keys; `key_type` 0 is a group, 1 a transactional id."""

    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)
    coordinator_keys: Sequence[str] = field(array(STRING), since=4)


KEYS_SINCE: Final = since(FindCoordinatorRequest, "coordinator_keys")


@struct
class Coordinator:
    key: str = field(STRING)
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=4, ignorable=True)


@message(versions=(0, 6), flexible=3)
class FindCoordinatorResponse:
    """The coordinating broker: a single one below version 4, one per key from then on."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable=1, ignorable=True)
    node_id: int = field(INT32, until=3)
    host: str = field(STRING, until=3)
    port: int = field(INT32, until=3)
    coordinators: Sequence[Coordinator] = field(array(Coordinator), since=4)
