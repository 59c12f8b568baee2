"""Decision: declares how a consumer takes part in a group: join, sync, heartbeat, leave."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, BYTES, INT16, INT32, STRING, array, field, message, struct


@struct
class JoinGroupRequestProtocol:
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Take me into the group, and wait until its members are known."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1, ignorable=True)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_type: str = field(STRING)
    protocols: Sequence[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable=8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    metadata: bytes = field(BYTES)


@message(versions=(0, 9), flexible=6)
class JoinGroupResponse:
    """The generation; its leader also learns every member."""

    throttle_time_ms: int = field(INT32, since=2, ignorable=True)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable=7, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, nullable=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: Sequence[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))


@struct
class SyncGroupRequestAssignment:
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@message(versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """From the leader: who gets what. From all: what do I get?"""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


@message(versions=(0, 5), flexible=4)
class SyncGroupResponse:
    """The assignment of this member."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)
    assignment: bytes = field(BYTES)


@message(versions=(0, 4), flexible=4)
class HeartbeatRequest:
    """I am alive, in this generation."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)


@message(versions=(0, 4), flexible=4)
class HeartbeatResponse:
    """Go on, or join again."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)


@struct
class MemberIdentity:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3, default=None)
    reason: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)


@message(versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    """Remove this member; from version 3 on, these members."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: Sequence[MemberIdentity] = field(array(MemberIdentity), since=3)


@struct
class MemberResponse:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable=3)
    error_code: int = field(INT16)


@message(versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    """What became of each member."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)
    members: Sequence[MemberResponse] = field(array(MemberResponse), since=3)
