"""Entries that this client cannot show: `ottla.client.admin.admin_acls`."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from kafkawire.acl import AclFilter
from kafkawire.messages.acls import (
    AclDescription,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.client.admin.admin_acls import delete_acls, describe_acls
from ottla.client.errors import UnsupportedVersionError
from ottla.client.network.cluster import Cluster
from ottla.client.retry import Backoff

ENTRY = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
PATTERN = {"resource_type": 2, "resource_name": "t", "pattern_type": 3}


class LaterBroker:
    """Answers with one entry that has a number of a later release."""

    def __init__(self, field: str) -> None:
        self.backoff = Backoff(initial_s=0.001, max_s=0.001, random=lambda: 0.5)
        self.entry = {key: 99 if key == field else value for key, value in ENTRY.items()}
        self.pattern = {key: 99 if key == field else value for key, value in PATTERN.items()}

    async def request_any(
        self, _message: object, response_type: type, **_settings: Any
    ) -> DescribeAclsResponse | DeleteAclsResponse:
        """Return the response of the broker."""
        if response_type is DeleteAclsResponse:
            removed = DeleteAclsMatchingAcl(**self.pattern, **self.entry)  # type: ignore[arg-type]
            return DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(matching_acls=[removed])]
            )
        entry = AclDescription(**self.entry)  # type: ignore[arg-type]
        resource = DescribeAclsResource(**self.pattern, acls=[entry])  # type: ignore[arg-type]
        return DescribeAclsResponse(resources=[resource])


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: describe_acls(cluster, AclFilter(), 1.0),
        lambda cluster: delete_acls(cluster, [AclFilter()], 1.0),
    ],
)
async def test_an_entry_of_a_later_release_is_reported(
    field: str, call: Callable[[Cluster], Awaitable[object]]
) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"has the \w+ 99, .* use a newer client"):
        await call(cast(Cluster, LaterBroker(field)))
