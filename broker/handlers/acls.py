"""DescribeAcls, CreateAcls and DeleteAcls (edge).

Without an authorizer it responds that security is disabled: tools request these APIs incidentally
and continue then, but a closed connection stops them.

Source: kafka.server.AclApis, kafka.security.authorizer.AclAuthorizer of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from broker.handlers.handler_table import Apis, Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from broker.security.access_control import AccessControl
from broker.security.acl_filter_index import AclFilterIndex
from broker.security.principal import parse_principal
from clusterstate.acl_requests import Entries
from clusterstate.znodes.acl_entries import acl_path
from coordination.protocol.node_path import is_valid
from kafkawire.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NO_AUTHORIZER: Final = "No authorizer is configured."
UNKNOWN: Final = 0
"""Kafka's number for resource types, pattern types, operations and permissions that it lacks."""
UNKNOWN_IN_FILTER: Final = f"a filter of access control entries has the number {UNKNOWN}"

Filters = Sequence[AclFilter | None]
"""Filters by their places in a request; None matches nothing."""

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_ACLS: lambda parts: (
        describe_nothing if parts.access is None else _handler(parts, parts.access).describe
    ),
    ApiKey.CREATE_ACLS: lambda parts: (
        create_nothing if parts.access is None else _handler(parts, parts.access).create
    ),
    ApiKey.DELETE_ACLS: lambda parts: (
        delete_nothing if parts.access is None else _handler(parts, parts.access).delete
    ),
}


class AclsHandler:
    """Lists and changes entries; one bad entry does not fail the others.

    As in Kafka, the number 0 closes the connection. An entry with another number that Kafka does
    not define is refused, and such a filter matches nothing.
    """

    def __init__(self, tasks: RequestTasks, access: AccessControl) -> None:
        self._tasks = tasks
        self._access = access

    def describe(self, request: Request, message: DescribeAclsRequest) -> Reply:
        """Respond with the entries that match a filter."""
        del request
        if UNKNOWN in _numbers_of_filter(message):
            return Reply.close(UNKNOWN_IN_FILTER)
        wanted = _filter(message)
        if wanted is None:
            return Reply(DescribeAclsResponse(error_message=None))
        return self._tasks.run(partial(self._describe, wanted))

    def create(self, request: Request, message: CreateAclsRequest) -> Reply:
        """Add entries; one that exists already is a success."""
        if any(UNKNOWN in _numbers_of(each) for each in message.creations):
            return Reply.close(f"an access control entry has the number {UNKNOWN}")
        return self._tasks.run(partial(self._create, message.creations, str(request.principal)))

    def delete(self, request: Request, message: DeleteAclsRequest) -> Reply:
        """Remove the entries that match any of the filters; each is reported once."""
        if any(UNKNOWN in _numbers_of_filter(each) for each in message.filters):
            return Reply.close(UNKNOWN_IN_FILTER)
        filters = [_filter(each) for each in message.filters]
        return self._tasks.run(partial(self._delete, filters, str(request.principal)))

    async def _describe(self, wanted: AclFilter) -> DescribeAclsResponse:
        resources = []
        entries = self._access.authorizer.acls.entries
        async for pattern in in_turns(sorted(entries, key=_order)):
            if not wanted.matches_pattern(pattern):
                continue
            found = [each for each in entries[pattern] if wanted.matches_entry(each)]
            if found:
                resources.append(
                    DescribeAclsResource(
                        resource_type=pattern.resource_type,
                        resource_name=pattern.name,
                        pattern_type=pattern.pattern_type,
                        acls=[
                            AclDescription(
                                principal=each.principal,
                                host=each.host,
                                operation=each.operation,
                                permission_type=each.permission,
                            )
                            for each in found
                        ],
                    )
                )
        return DescribeAclsResponse(error_message=None, resources=resources)

    async def _create(self, creations: Sequence[AclCreation], principal: str) -> CreateAclsResponse:
        errors: dict[int, ApiError] = {}
        by_pattern: dict[ResourcePattern, dict[int, AclEntry]] = {}
        for place, creation in enumerate(creations):
            try:
                acl = _acl(creation)
                by_pattern.setdefault(acl.pattern, {})[place] = acl.entry
            except ApiError as error:
                errors[place] = error
        for pattern, entries in by_pattern.items():
            added = frozenset(entries.values())
            try:
                await self._access.nodes.change(pattern, added.union)
                log.info("acls.added", by=principal, pattern=str(pattern), count=len(added))
            except ApiError as error:
                errors |= dict.fromkeys(entries, error)
        results = [_creation_result(errors.get(place)) for place in range(len(creations))]
        return CreateAclsResponse(results=results)

    async def _delete(self, filters: Filters, principal: str) -> DeleteAclsResponse:
        matching: list[list[DeleteAclsMatchingAcl]] = [[] for _ in filters]
        patterns = sorted(self._access.authorizer.acls.entries, key=_order)
        async for pattern in in_turns(patterns, weight=len(filters)):
            asked = AclFilterIndex()
            async for place, each in in_turns(enumerate(filters)):
                if each is not None and each.matches_pattern(pattern):
                    asked.add(place, each)
            if asked:
                await self._delete_from(pattern, asked, matching)
        count = sum(each.error_code == ErrorCode.NONE for found in matching for each in found)
        if count:
            log.info("acls.removed", by=principal, count=count)
        results = [
            DeleteAclsFilterResult(error_message=None, matching_acls=each) for each in matching
        ]
        return DeleteAclsResponse(filter_results=results)

    async def _delete_from(
        self,
        pattern: ResourcePattern,
        asked: AclFilterIndex,
        matching: list[list[DeleteAclsMatchingAcl]],
    ) -> None:
        """Remove the entries of one pattern; add them to the results of their first filter."""
        taken: dict[AclEntry, int] = {}

        def remove(found: Entries) -> Entries:
            # After a lost answer it runs again, and `found` lacks entries that are gone already.
            for entry in found:
                place = asked.first_match(entry)
                if place is not None:
                    taken[entry] = place
            return found - taken.keys()

        code, text = ErrorCode.NONE, None
        try:
            await self._access.nodes.change(pattern, remove)
        except ApiError as error:
            code, text = error.code, error.message or error.code.text
            if not taken:
                # The znode could not be read; the entries known before stay in force.
                remove(self._access.authorizer.acls.get(pattern))
        for entry, place in taken.items():
            matching[place].append(
                DeleteAclsMatchingAcl(
                    error_code=code,
                    error_message=text,
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
            )


def _numbers_of(creation: AclCreation) -> Sequence[int]:
    return (
        creation.resource_type,
        creation.resource_pattern_type,
        creation.operation,
        creation.permission_type,
    )


def _numbers_of_filter(found: DescribeAclsRequest | DeleteAclsFilter) -> Sequence[int]:
    return (
        found.resource_type_filter,
        found.pattern_type_filter,
        found.operation,
        found.permission_type,
    )


def _filter(found: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | None:
    """Return the filter of a request; None if it holds a number that Kafka does not define."""
    try:
        return AclFilter(
            resource_type=ResourceType(found.resource_type_filter),
            name=found.resource_name_filter,
            pattern_type=PatternType(found.pattern_type_filter),
            principal=found.principal_filter,
            host=found.host_filter,
            operation=Operation(found.operation),
            permission=Permission(found.permission_type),
        )
    except ValueError:
        return None


def _acl(creation: AclCreation) -> AclBinding:
    """Return the requested entry.

    Raises:
        ApiError: INVALID_REQUEST, the entry would apply to nothing.
    """
    try:
        pattern = ResourcePattern(
            ResourceType(creation.resource_type),
            creation.resource_name,
            PatternType(creation.resource_pattern_type),
        )
        entry = AclEntry(
            principal=creation.principal,
            host=creation.host,
            operation=Operation(creation.operation),
            permission=Permission(creation.permission_type),
        )
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    if fault := _fault(pattern, entry):
        raise ApiError(ErrorCode.INVALID_REQUEST, fault)
    return AclBinding(pattern, entry)


def _fault(pattern: ResourcePattern, entry: AclEntry) -> str | None:
    """Return the reason to refuse an entry."""
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"an entry needs a literal or prefixed pattern, not {pattern.pattern_type.name}"
    if pattern.resource_type is ResourceType.ANY:
        return "an entry needs the type of its resource"
    if Operation.ANY is entry.operation or Permission.ANY is entry.permission:
        return "an entry needs an operation and a permission"
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"the only resource of type Cluster is {CLUSTER_NAME}, not {pattern.name}"
    if not pattern.name or "/" in pattern.name or not is_valid(acl_path(pattern)):
        return f"the name {pattern.name!r} is empty or cannot be the name of a znode"
    try:
        parse_principal(entry.principal)
    except ValueError as error:
        return str(error)
    return None


def _creation_result(error: ApiError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=error.code, error_message=error.message or error.code.text)


def _order(pattern: ResourcePattern) -> tuple[int, int, str]:
    return (pattern.resource_type, pattern.pattern_type, pattern.name)


def _handler(parts: Parts, access: AccessControl) -> AclsHandler:
    return AclsHandler(parts.tasks, access)


def describe_nothing(request: Request, message: DescribeAclsRequest) -> Reply:
    """Respond that security is disabled."""
    del request, message
    response = DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return Reply(response)


def create_nothing(request: Request, message: CreateAclsRequest) -> Reply:
    """Refuse each entry."""
    del request
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return Reply(CreateAclsResponse(results=[refused] * len(message.creations)))


def delete_nothing(request: Request, message: DeleteAclsRequest) -> Reply:
    """Refuse each filter."""
    del request
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return Reply(DeleteAclsResponse(filter_results=[refused] * len(message.filters)))
