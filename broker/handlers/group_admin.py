"""DescribeGroups, ListGroups and DeleteGroups (edge)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from broker.groups.commits import GroupCommits
from broker.groups.group import Group
from broker.groups.registry import GroupRegistry
from broker.groups.state import DEAD, STABLE
from broker.handlers.handler_table import Apis, Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import ITEMS_PER_TURN, RequestTasks, in_turns
from kafkawire.acl import OPERATION_BITS, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR

GROUP_TYPE: Final = "classic"
"""Type of every group: a member assigns partitions, not the broker ("classic" in KIP-848)."""

DELETIONS_PER_TURN: Final = 10
"""Each writes a tombstone for each offset of the group."""

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_GROUPS: lambda parts: _handler(parts).describe,
    ApiKey.LIST_GROUPS: lambda parts: _handler(parts).list,
    ApiKey.DELETE_GROUPS: lambda parts: _handler(parts).delete,
}


class GroupAdminHandler:
    """Describes, lists and deletes groups."""

    def __init__(self, registry: GroupRegistry, commits: GroupCommits, tasks: RequestTasks) -> None:
        self._registry = registry
        self._commits = commits
        self._tasks = tasks

    def describe(self, request: Request, message: DescribeGroupsRequest) -> Reply:
        """Respond with a result for every named group; one that does not exist is Dead.

        A group that is named repeatedly has one result, as it may have thousands of members.
        """
        del request
        groups = [self._describe(group_id) for group_id in dict.fromkeys(message.groups)]
        if message.include_authorized_operations:
            for group in groups:
                group.authorized_operations = OPERATION_BITS[ResourceType.GROUP]
        return Reply(DescribeGroupsResponse(groups=groups))

    def list(self, request: Request, message: ListGroupsRequest) -> Reply:
        """Respond with this broker's groups of the requested states and types."""
        del request
        code = (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if self._registry.leaderships.is_loading
            else ErrorCode.NONE
        )
        return Reply(ListGroupsResponse(error_code=code, groups=[*self._listed(message)]))

    def delete(self, request: Request, message: DeleteGroupsRequest) -> Reply:
        """Delete groups without members; a bad group does not fail the others."""
        del request
        names = dict.fromkeys(message.groups_names)
        if len(names) > DELETIONS_PER_TURN:
            return self._tasks.run(partial(self._delete_in_turns, names))
        return Reply(DeleteGroupsResponse(results=[self._delete(each) for each in names]))

    async def _delete_in_turns(self, names: Iterable[str]) -> DeleteGroupsResponse:
        turns = in_turns(names, weight=ITEMS_PER_TURN // DELETIONS_PER_TURN)
        return DeleteGroupsResponse(results=[self._delete(each) async for each in turns])

    def _delete(self, group_id: str) -> DeletableGroupResult:
        return DeletableGroupResult(
            group_id=group_id, error_code=self._commits.delete_group(group_id)
        )

    def _listed(self, message: ListGroupsRequest) -> Iterator[ListedGroup]:
        states = {state.lower() for state in message.states_filter}
        types = {each.lower() for each in message.types_filter}
        if types and GROUP_TYPE not in types:
            return
        for group in self._registry:
            if not states or group.state.value.lower() in states:
                yield ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=GROUP_TYPE,
                )

    def _describe(self, group_id: str) -> DescribedGroup:
        try:
            group = self._registry.find(group_id, may_be_unnamed=True)
        except ApiError as error:
            return _described(group_id, code=error.code)
        if group is None:
            return _described(group_id, state=DEAD.value)
        return _described(group_id, group, state=group.state.value)


def _described(
    group_id: str,
    group: Group | None = None,
    *,
    state: str = "",
    code: ErrorCode = ErrorCode.NONE,
) -> DescribedGroup:
    # During a rebalance the old assignments are void and the new ones are not known yet.
    protocol_name = group.protocol_name if group is not None and group.state is STABLE else None
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state=state,
        protocol_type=(group and group.protocol_type) or "",
        protocol_data=protocol_name or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
                member_assignment=b"" if protocol_name is None else member.assignment,
            )
            for member in (group.members if group is not None else ())
        ],
        authorized_operations=OPERATIONS_NOT_ASKED_FOR,
    )


def _handler(parts: Parts) -> GroupAdminHandler:
    return GroupAdminHandler(parts.groups.registry, parts.groups.commits, parts.tasks)
