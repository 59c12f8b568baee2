"""Lists, adds and removes access control entries (edge).

Any broker serves these requests. It obeys a change at once; the other brokers follow soon.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kafkawire.acl import (
    AclBinding,
    AclEntry,
    AclEnum,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.messages.acls import (
    AclCreation,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.client.admin.admin_request import (
    change,
    error_or_none,
    raise_first,
    read,
)
from ottla.client.argument import require_instance
from ottla.client.errors import OttlaError, UnsupportedVersionError, no_result
from ottla.client.network.cluster import Cluster

E = TypeVar("E", bound=AclEnum)


async def describe_acls(cluster: Cluster, wanted: AclFilter, timeout_s: float) -> list[AclBinding]:
    """Return the entries that match a filter.

    Raises:
        BrokerError: the broker has no authorizer, or this user may not list entries.
    """
    require_instance("wanted", AclFilter, wanted)
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )

    async def attempt() -> list[AclBinding]:
        response = await cluster.request_any(request, DescribeAclsResponse, may_repeat=True)
        error = error_or_none(response.error_code, "access control lists", response.error_message)
        raise_first([error])
        return [
            AclBinding(_pattern(resource), _entry(each))
            for resource in response.resources
            for each in resource.acls
        ]

    return await read(cluster, attempt, timeout_s)


async def create_acls(cluster: Cluster, bindings: Sequence[AclBinding], timeout_s: float) -> None:
    """Add entries, each once; one that exists already is a success.

    Raises:
        BrokerError: the broker refuses an entry; the others were added.
    """
    for each in bindings:
        require_instance("a binding", AclBinding, each)
        require_instance("the pattern of a binding", ResourcePattern, each.pattern)
        require_instance("the entry of a binding", AclEntry, each.entry)
    bindings = list(dict.fromkeys(bindings))
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in bindings
        ]
    )

    async def attempt() -> None:
        response = await cluster.request_any(request, CreateAclsResponse)
        # Results have the order of the entries, and do not name them.
        errors: list[OttlaError | None] = [
            error_or_none(each.error_code, f"entry for {binding.pattern}", each.error_message)
            for binding, each in zip(bindings, response.results, strict=False)
        ]
        missing = bindings[len(response.results) :]
        raise_first(errors + [no_result(f"entry for {each.pattern}") for each in missing])

    await change(cluster, attempt, timeout_s)


async def delete_acls(
    cluster: Cluster, filters: Iterable[AclFilter], timeout_s: float
) -> list[AclBinding]:
    """Remove the entries that match any of the filters, and return them, each once.

    Raises:
        BrokerError: the broker refuses, or has not removed an entry; the others were removed.
    """
    filters = list(filters)
    for each in filters:
        require_instance("a filter", AclFilter, each)
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
            for each in dict.fromkeys(filters)
        ]
    )

    async def attempt() -> list[AclBinding]:
        response = await cluster.request_any(request, DeleteAclsResponse)
        matching = [each for result in response.filter_results for each in result.matching_acls]
        errors = [(each.error_code, each.error_message) for each in response.filter_results]
        errors += [(each.error_code, each.error_message) for each in matching]
        raise_first(error_or_none(code, "access control list", text) for code, text in errors)
        if len(response.filter_results) < len(request.filters):
            raise no_result("an access control list")
        # Filters may overlap.
        removed = (AclBinding(_pattern(each), _entry(each)) for each in matching)
        return list(dict.fromkeys(removed))

    return await change(cluster, attempt, timeout_s)


def _pattern(each: DescribeAclsResource | DeleteAclsMatchingAcl) -> ResourcePattern:
    kind = _known(ResourceType, each.resource_type)
    pattern_type = _known(PatternType, each.pattern_type)
    return ResourcePattern(kind, each.resource_name, pattern_type)


def _entry(each: AclDescription | DeleteAclsMatchingAcl) -> AclEntry:
    return AclEntry(
        principal=each.principal,
        host=each.host,
        operation=_known(Operation, each.operation),
        permission=_known(Permission, each.permission_type),
    )


def _known(kind: type[E], number: int) -> E:
    """Return a number of the protocol as a member of `kind`.

    Raises:
        UnsupportedVersionError: the broker knows it from a later release.
    """
    try:
        return kind(number)
    except ValueError:
        raise UnsupportedVersionError(
            f"an access control entry has the {kind.__name__} {number}, which this client does "
            "not know: use a newer client. Entries that were to be removed are removed."
        ) from None
