"""Declares the messages that consumers exchange inside JoinGroup and SyncGroup (decision).

Brokers forward these bytes unread. They begin with their version (an int16), which
`kafkawire.consumer_protocol` writes and reads.
"""

from collections.abc import Sequence

from kafkawire.schema import BYTES, INT32, STRING, array, field, message, struct


@struct
class OwnedPartitions:
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@message(versions=(0, 3))
class ConsumerProtocolSubscription:
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: Sequence[str] = field(array(STRING))
    user_data: bytes | None = field(BYTES, nullable=0, default=None)
    owned_partitions: Sequence[OwnedPartitions] = field(
        array(OwnedPartitions), since=1, ignorable=True
    )
    generation_id: int = field(INT32, since=2, default=-1, ignorable=True)
    rack_id: str | None = field(STRING, since=3, nullable=3, default=None, ignorable=True)


@struct
class AssignedPartitions:
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@message(versions=(0, 3))
class ConsumerProtocolAssignment:
    """The partitions that the group's leader has assigned to a member."""

    assigned_partitions: Sequence[AssignedPartitions] = field(array(AssignedPartitions))
    user_data: bytes | None = field(BYTES, nullable=0, default=None)


@message(versions=(0, 1))
class StickyAssignorUserData:
    """The previous partitions of a member of a sticky assignor; version 1 adds their generation."""

    previous_assignment: Sequence[OwnedPartitions] = field(array(OwnedPartitions))
    generation: int = field(INT32, since=1, default=-1, ignorable=True)
