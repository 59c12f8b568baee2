"""The guards of consumer groups: `broker.handlers.guards.group_guards`."""

from typing import Any, cast

from broker.handlers.guards.group_guards import GUARDS
from broker.handlers.guards.guard import Guard
from broker.handlers.offset_fetch import OffsetFetchHandler
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from kafkawire.apis import ApiKey
from kafkawire.messages.group_offsets import (
    GROUPS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.requests import request


class NoGroups:
    """Offsets of groups, without any group."""

    def find(self, _group_id: str) -> None:
        """Return None: there is no such group."""


def test_offsets_of_a_group_that_is_named_repeatedly_have_their_results() -> None:
    guard = Guard(Authorizer([], allows_unlisted=True), Audit(lambda: 0.0, logs_allowed=False))
    handler = OffsetFetchHandler(cast(Any, NoGroups()))
    guarded = GUARDS[ApiKey.OFFSET_FETCH](cast(Any, None), guard, handler.handle)
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    named = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    message = OffsetFetchRequest(groups=[everything, everything, named])
    reply = guarded(request(ApiKey.OFFSET_FETCH, GROUPS_SINCE, message), message)
    assert isinstance(reply.message, OffsetFetchResponse)
    assert [[topic.name for topic in each.topics] for each in reply.message.groups] == [[], ["t"]]
