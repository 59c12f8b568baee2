"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup (edge)."""

from __future__ import annotations

from typing import Final

from broker.groups.group_coordinator import GroupCoordinator
from broker.groups.group_effects import Joining, JoinResult, Syncing, SyncResult
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.group_membership import (
    MEMBER_ID_REQUIRED_SINCE,
    MEMBERS_SINCE,
    NULL_PROTOCOL_SINCE,
    REBALANCE_TIMEOUT_SINCE,
    SKIP_ASSIGNMENT_SINCE,
    SYNC_PROTOCOL_SINCE,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

APIS: Final[Apis] = {
    ApiKey.JOIN_GROUP: lambda parts: GroupMembershipHandler(parts.groups).join,
    ApiKey.SYNC_GROUP: lambda parts: GroupMembershipHandler(parts.groups).sync,
    ApiKey.HEARTBEAT: lambda parts: GroupMembershipHandler(parts.groups).heartbeat,
    ApiKey.LEAVE_GROUP: lambda parts: GroupMembershipHandler(parts.groups).leave,
}


class GroupMembershipHandler:
    """Serves the members of groups."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def join(self, request: Request, message: JoinGroupRequest) -> Reply:
        """Respond when the next generation begins, or at once with an error."""
        version, reply = request.header.api_version, Reply()

        def answer(result: JoinResult) -> None:
            reply.complete(_join_response(result, version))

        self._coordinator.join(message.group_id, self._joining(request, message), answer)
        return reply

    def sync(self, request: Request, message: SyncGroupRequest) -> Reply:
        """Respond when the group leader has sent the assignments."""
        is_named = message.protocol_type is not None and message.protocol_name is not None
        if request.header.api_version >= SYNC_PROTOCOL_SINCE and not is_named:
            return Reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        reply = Reply()

        def answer(result: SyncResult) -> None:
            reply.complete(
                SyncGroupResponse(
                    error_code=result.error,
                    protocol_type=result.protocol_type,
                    protocol_name=result.protocol_name,
                    assignment=result.assignment,
                )
            )

        self._coordinator.sync(message.group_id, _syncing(message), answer)
        return reply

    def heartbeat(self, request: Request, message: HeartbeatRequest) -> Reply:
        """Respond with NONE while the member's generation is current."""
        del request
        code = self._coordinator.heartbeat(
            message.group_id, message.member_id, message.group_instance_id, message.generation_id
        )
        return Reply(HeartbeatResponse(error_code=code))

    def leave(self, request: Request, message: LeaveGroupRequest) -> Reply:
        """Remove members; before version 3 a request has one, and reports its error."""
        has_members = request.header.api_version >= MEMBERS_SINCE
        leaving = message.members if has_members else [MemberIdentity(member_id=message.member_id)]
        pairs = [(each.member_id, each.group_instance_id) for each in leaving]
        try:
            codes = self._coordinator.leave(message.group_id, pairs)
        except ApiError as error:
            return Reply(LeaveGroupResponse(error_code=error.code))
        if not has_members:
            return Reply(LeaveGroupResponse(error_code=codes[0]))
        return Reply(
            LeaveGroupResponse(
                members=[
                    MemberResponse(
                        member_id=member_id, group_instance_id=instance_id, error_code=code
                    )
                    for (member_id, instance_id), code in zip(pairs, codes, strict=True)
                ]
            )
        )

    def _joining(self, request: Request, message: JoinGroupRequest) -> Joining:
        version, instance_id = request.header.api_version, message.group_instance_id
        client_id = request.header.client_id or ""
        has_timeout = version >= REBALANCE_TIMEOUT_SINCE
        return Joining(
            member_id=message.member_id,
            instance_id=instance_id,
            client_id=client_id,
            # With the slash of Java's InetAddress: tools show, and the log keeps, the same text.
            client_host=f"/{request.client_host}",
            session_timeout_ms=message.session_timeout_ms,
            rebalance_timeout_ms=(
                message.rebalance_timeout_ms if has_timeout else message.session_timeout_ms
            ),
            protocol_type=message.protocol_type,
            protocols=tuple((each.name, each.metadata) for each in message.protocols),
            fresh_member_id=self._coordinator.fresh_member_id(
                client_id if instance_id is None else instance_id
            ),
            requires_known_id=(version >= MEMBER_ID_REQUIRED_SINCE and instance_id is None),
            can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
        )


def _syncing(message: SyncGroupRequest) -> Syncing:
    return Syncing(
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation_id=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments={each.member_id: each.assignment for each in message.assignments},
    )


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < NULL_PROTOCOL_SINCE:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader_id,
        # Older versions do not have this field; the group then never sets it.
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in result.members
        ],
    )
