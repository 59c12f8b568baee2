"""Declares the messages of group membership: join, sync, heartbeat, leave (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, BYTES, INT16, INT32, STRING, array, field, message, since, struct


@struct
class JoinGroupRequestProtocol:
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Request to join a group; the response waits until all members are known."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1, ignorable=True)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_type: str = field(STRING)
    protocols: Sequence[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable=8, default=None, ignorable=True)


REBALANCE_TIMEOUT_SINCE: Final = since(JoinGroupRequest, "rebalance_timeout_ms")
MEMBER_ID_REQUIRED_SINCE: Final = 4
"""First version whose clients know MEMBER_ID_REQUIRED."""


@struct
class JoinGroupResponseMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible=6)
class JoinGroupResponse:
    """The new generation; the response to its leader lists all members."""

    throttle_time_ms: int = field(INT32, since=2, ignorable=True)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable=7, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, nullable=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: Sequence[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))


NULL_PROTOCOL_SINCE: Final = 7
"""First version in which a response may have no protocol name."""
SKIP_ASSIGNMENT_SINCE: Final = since(JoinGroupResponse, "skip_assignment")


@struct
class SyncGroupRequestAssignment:
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@message(versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """Request for the sender's assignment; the leader's request contains all assignments."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


SYNC_PROTOCOL_SINCE: Final = since(SyncGroupRequest, "protocol_name")


@message(versions=(0, 5), flexible=4)
class SyncGroupResponse:
    """The assignment of the member."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    assignment: bytes = field(BYTES)


@message(versions=(0, 4), flexible=4)
class HeartbeatRequest:
    """Heartbeat of a member of a generation."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)


@message(versions=(0, 4), flexible=4)
class HeartbeatResponse:
    """The error code, which may require the member to rejoin."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)


@struct
class MemberIdentity:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3, default=None)
    reason: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)


@message(versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    """Request to remove a member or, from version 3 on, several members."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: Sequence[MemberIdentity] = field(array(MemberIdentity), since=3)


MEMBERS_SINCE: Final = since(LeaveGroupRequest, "members")


@struct
class MemberResponse:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3)
    error_code: int = field(INT16)


@message(versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    """The result for each member."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)
    members: Sequence[MemberResponse] = field(array(MemberResponse), since=3)
