"""The guards of consumer groups: `broker.handlers.guards.group_guards`."""

from typing import Any, cast

import pytest

from broker.handlers.guards.group_guards import GUARDS
from broker.handlers.guards.guard import Guard
from broker.handlers.offset_fetch import OffsetFetchHandler
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from kafkawire.acl import AclEntry, Operation, Permission, ResourcePattern, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.group_offsets import (
    GROUPS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.requests import request

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class NoGroups:
    """Offsets of groups, without any group."""

    def find(self, _group_id: str) -> None:
        """Return None: there is no such group."""


def test_offsets_of_a_group_that_is_named_repeatedly_have_their_results() -> None:
    guard = Guard(Authorizer([], allows_unlisted=True), Audit(lambda: 0.0, logs_allowed=False))
    handler = OffsetFetchHandler(cast(Any, NoGroups()), cast(Any, None))
    guarded = GUARDS[ApiKey.OFFSET_FETCH](cast(Any, None), guard, handler.handle)
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    named = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    message = OffsetFetchRequest(groups=[everything, everything, named])
    reply = guarded(request(ApiKey.OFFSET_FETCH, GROUPS_SINCE, message), message)
    assert isinstance(reply.message, OffsetFetchResponse)
    assert [[topic.name for topic in each.topics] for each in reply.message.groups] == [[], ["t"]]


class LoadingGroups:
    """Offsets of groups that are being loaded."""

    def find(self, _group_id: str) -> None:
        """Refuse to find a group."""
        raise ApiError(LOADING)


@pytest.mark.parametrize(
    ("version", "answered"),
    [
        (1, {"t": LOADING, "u": ErrorCode.TOPIC_AUTHORIZATION_FAILED}),
        (2, {}),
    ],
)
def test_denied_topics_of_a_group_with_an_error_are_answered_without_a_code_for_the_group(
    version: int, answered: dict[str, ErrorCode]
) -> None:
    authorizer = Authorizer([], allows_unlisted=False)
    for kind, name in ((ResourceType.GROUP, "g"), (ResourceType.TOPIC, "t")):
        right = AclEntry(
            principal="User:*", host="*", operation=Operation.DESCRIBE, permission=Permission.ALLOW
        )
        authorizer.set(ResourcePattern(kind, name), [right])
    guard = Guard(authorizer, Audit(lambda: 0.0, logs_allowed=False))
    handler = OffsetFetchHandler(cast(Any, LoadingGroups()), cast(Any, None))
    guarded = GUARDS[ApiKey.OFFSET_FETCH](cast(Any, None), guard, handler.handle)
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in ("t", "u")]
    message = OffsetFetchRequest(group_id="g", topics=topics)
    reply = guarded(request(ApiKey.OFFSET_FETCH, version, message), message)
    assert isinstance(reply.message, OffsetFetchResponse)
    codes = {each.name: each.partitions[0].error_code for each in reply.message.topics}
    assert codes == answered
