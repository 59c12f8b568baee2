"""Declares the keys and values of the records in `__consumer_offsets` (decision).

In the log each of them is preceded by its version (two bytes); see `kafkawire.group_records`.
"""

from collections.abc import Sequence

from kafkawire.schema import BYTES, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 1))
class OffsetCommitKey:
    """The group and partition of a committed offset; both versions are identical."""

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """The progress of a group in a partition."""

    offset: int = field(INT64)
    leader_epoch: int = field(INT32, since=3, default=-1, ignorable=True)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, since=1, until=1, default=-1, ignorable=True)


@message(versions=(2, 2))
class GroupMetadataKey:
    """The id of a group; its version continues the numbering of the offset keys."""

    group: str = field(STRING)


@struct
class MemberMetadata:
    """One member, with its assignment."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None, ignorable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, since=1, default=-1, ignorable=True)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


@message(versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """One generation of a group."""

    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable=0)
    leader: str | None = field(STRING, nullable=0)
    current_state_timestamp: int = field(INT64, since=2, default=-1, ignorable=True)
    members: Sequence[MemberMetadata] = field(array(MemberMetadata))
