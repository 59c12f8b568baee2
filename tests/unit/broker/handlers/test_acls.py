"""Deletions of access control entries that the coordinator refuses, or confirms too late."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from broker.handlers.acls import AclsHandler
from broker.network.request_tasks import RequestTasks
from broker.security.authorizer import Authorizer
from kafkawire.acl import AclEntry, Operation, Permission, ResourcePattern, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tests.unit.broker.requests import request

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
READER, WRITER = (
    AclEntry(principal="User:alice", host="*", operation=operation, permission=Permission.ALLOW)
    for operation in (Operation.READ, Operation.WRITE)
)
ENTRIES = frozenset({READER, WRITER})
READ_BY_ALICE = DeleteAclsFilter(
    resource_type_filter=ResourceType.TOPIC,
    resource_name_filter="orders",
    principal_filter="User:alice",
    host_filter=None,
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


class Unchangeable:
    """Nodes whose entries can be read, or not even that, and never changed."""

    def __init__(self, *, is_read: bool) -> None:
        self._is_read = is_read

    async def change(
        self, _pattern: ResourcePattern, change: Callable[[frozenset[AclEntry]], object]
    ) -> None:
        if self._is_read:
            change(ENTRIES)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the coordinator did not respond")


class LostAnswer:
    """Nodes that apply a change, and repeat it because the answer was lost."""

    async def change(
        self,
        _pattern: ResourcePattern,
        change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]],
    ) -> None:
        left = change(ENTRIES)
        assert change(left) == left == {WRITER}


class Access:
    """Access control of a broker that knows the entries."""

    def __init__(self, nodes: Unchangeable | LostAnswer) -> None:
        self.nodes = nodes
        self.authorizer = Authorizer([], allows_unlisted=False)
        self.authorizer.set(ORDERS, ENTRIES)


async def delete(nodes: Unchangeable | LostAnswer) -> DeleteAclsMatchingAcl:
    """Delete READER at `nodes`; return the result, which must be the only one."""
    loop = asyncio.get_running_loop()
    access = cast(Any, Access(nodes))
    message = DeleteAclsRequest(filters=[READ_BY_ALICE])
    done = loop.create_future()
    handler = AclsHandler(RequestTasks(loop), access)
    reply = handler.delete(request(ApiKey.DELETE_ACLS, 3, message), message)
    reply.on_done(lambda: done.set_result(None))
    await done
    response = reply.message
    assert isinstance(response, DeleteAclsResponse)
    [result] = response.filter_results
    [found] = result.matching_acls
    assert (found.principal, found.operation) == ("User:alice", Operation.READ)
    return found


@pytest.mark.parametrize("is_read", [True, False])
async def test_an_entry_that_cannot_be_removed_is_reported(is_read: bool) -> None:
    """Without it, an administrator would take the entry for absent."""
    with capture_logs() as logs:
        found = await delete(Unchangeable(is_read=is_read))
    assert (found.error_code, found.error_message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "the coordinator did not respond",
    )
    assert [each["event"] for each in logs] == []


async def test_an_entry_whose_removal_is_repeated_is_reported_and_logged() -> None:
    with capture_logs() as logs:
        found = await delete(LostAnswer())
    assert found.error_code == ErrorCode.NONE
    assert [(each["event"], each["count"]) for each in logs] == [("acls.removed", 1)]
