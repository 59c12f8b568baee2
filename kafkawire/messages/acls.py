"""Declares DescribeAcls, CreateAcls and DeleteAcls (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import INT8, INT16, INT32, STRING, array, field, message, struct

LITERAL: Final = 3


@message(versions=(0, 3), flexible=2)
class DescribeAclsRequest:
    """Request for the access control entries that match a filter; None matches every name."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=0)
    pattern_type_filter: int = field(INT8, since=1, default=LITERAL)
    principal_filter: str | None = field(STRING, nullable=0)
    host_filter: str | None = field(STRING, nullable=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class AclDescription:
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class DescribeAclsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, since=1, default=LITERAL)
    acls: Sequence[AclDescription] = field(array(AclDescription))


@message(versions=(0, 3), flexible=2)
class DescribeAclsResponse:
    """The matching entries, by protected resource."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resources: Sequence[DescribeAclsResource] = field(array(DescribeAclsResource))


@struct
class AclCreation:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, since=1, default=LITERAL)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message(versions=(0, 3), flexible=2)
class CreateAclsRequest:
    """Request to add entries."""

    creations: Sequence[AclCreation] = field(array(AclCreation))


@struct
class AclCreationResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@message(versions=(0, 3), flexible=2)
class CreateAclsResponse:
    """The result of each entry, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[AclCreationResult] = field(array(AclCreationResult))


@struct
class DeleteAclsFilter:
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable=0)
    pattern_type_filter: int = field(INT8, since=1, default=LITERAL)
    principal_filter: str | None = field(STRING, nullable=0)
    host_filter: str | None = field(STRING, nullable=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@message(versions=(0, 3), flexible=2)
class DeleteAclsRequest:
    """Request to remove the entries that match any of the filters."""

    filters: Sequence[DeleteAclsFilter] = field(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, since=1, default=LITERAL)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


@struct
class DeleteAclsFilterResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


@message(versions=(0, 3), flexible=2)
class DeleteAclsResponse:
    """The removed entries, by filter, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    filter_results: Sequence[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))
