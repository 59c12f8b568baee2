"""Requests that change access control lists, and a broker that obeys them (edge)."""

from collections.abc import Iterable

from kafkawire.acl import (
    CLUSTER_NAME,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.integration.broker.wire import Wire

ADMIN_HOST = "127.0.0.1"
"""Brokers and administrators connect from here, and may do everything."""
CLIENT_HOST = "127.0.0.2"
"""Clients connect from here, and may do nothing without an entry."""
WITH_AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
ALL = AclFilter()
Acl = tuple[ResourcePattern, AclEntry]


def acl(
    operation: Operation,
    pattern: ResourcePattern = CLUSTER,
    *,
    host: str = CLIENT_HOST,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:ANONYMOUS",
) -> Acl:
    return pattern, AclEntry(
        principal=principal, host=host, operation=operation, permission=permission
    )


def topic(name: str, pattern_type: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, pattern_type)


def group(name: str) -> ResourcePattern:
    return ResourcePattern(ResourceType.GROUP, name)


def add(wire: Wire, *acls: Acl, version: int = 3) -> list[int]:
    """Create entries; return the error code of each."""
    creations = [
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entry in acls
    ]
    request = CreateAclsRequest(creations=creations)
    response = wire.ask(ApiKey.CREATE_ACLS, version, request, CreateAclsResponse)
    return [result.error_code for result in response.results]


def remove(wire: Wire, *filters: AclFilter, version: int = 3) -> list[set[Acl]]:
    """Remove entries; return the removed ones by filter."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    response = wire.ask(ApiKey.DELETE_ACLS, version, request, DeleteAclsResponse)
    assert all(each.error_code == ErrorCode.NONE for each in response.filter_results)
    return [
        {
            (
                ResourcePattern(
                    ResourceType(each.resource_type),
                    each.resource_name,
                    PatternType(each.pattern_type),
                ),
                AclEntry(
                    principal=each.principal,
                    host=each.host,
                    operation=Operation(each.operation),
                    permission=Permission(each.permission_type),
                ),
            )
            for each in result.matching_acls
        }
        for result in response.filter_results
    ]


def listed(wire: Wire, wanted: AclFilter = ALL, version: int = 3) -> set[Acl]:
    """Return the entries that match a filter."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = wire.ask(ApiKey.DESCRIBE_ACLS, version, request, DescribeAclsResponse)
    assert response.error_code == ErrorCode.NONE, response
    return {
        (
            ResourcePattern(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
            ),
            AclEntry(
                principal=each.principal,
                host=each.host,
                operation=Operation(each.operation),
                permission=Permission(each.permission_type),
            ),
        )
        for resource in response.resources
        for each in resource.acls
    }


def reserve_for_admin(wire: Wire) -> None:
    """Allow everything from `ADMIN_HOST`, and so end the openness of all resources."""
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    patterns: Iterable[ResourcePattern] = (CLUSTER, *(ResourcePattern(kind, "*") for kind in kinds))
    acls = [acl(Operation.ALL, pattern, host=ADMIN_HOST) for pattern in patterns]
    assert set(add(wire, *acls)) == {ErrorCode.NONE}
