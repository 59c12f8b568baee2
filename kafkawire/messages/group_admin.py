"""Declares DescribeGroups, ListGroups and DeleteGroups (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, BYTES, INT16, INT32, STRING, array, field, message, struct
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR


@message(versions=(0, 5), flexible=5)
class DescribeGroupsRequest:
    """Request for the state and members of groups."""

    groups: Sequence[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL, since=3)


@struct
class DescribedGroupMember:
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable=4, default=None, ignorable=True)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


@struct
class DescribedGroup:
    error_code: int = field(INT16)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: Sequence[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(INT32, since=3, default=OPERATIONS_NOT_ASKED_FOR)


@message(versions=(0, 5), flexible=5)
class DescribeGroupsResponse:
    """The state and members of each group."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    groups: Sequence[DescribedGroup] = field(array(DescribedGroup))


@message(versions=(0, 5), flexible=3)
class ListGroupsRequest:
    """Request for the groups that the broker coordinates, filtered by state and type."""

    states_filter: Sequence[str] = field(array(STRING), since=4)
    types_filter: Sequence[str] = field(array(STRING), since=5)


@struct
class ListedGroup:
    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4, ignorable=True)
    group_type: str = field(STRING, since=5, ignorable=True)


@message(versions=(0, 5), flexible=3)
class ListGroupsResponse:
    """The groups that this broker coordinates."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    error_code: int = field(INT16)
    groups: Sequence[ListedGroup] = field(array(ListedGroup))


@message(versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    """Request to delete groups and their offsets."""

    groups_names: Sequence[str] = field(array(STRING))


@struct
class DeletableGroupResult:
    group_id: str = field(STRING)
    error_code: int = field(INT16)


@message(versions=(0, 2), flexible=2)
class DeleteGroupsResponse:
    """The result for each group."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[DeletableGroupResult] = field(array(DeletableGroupResult))
