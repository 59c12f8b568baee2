"""Guards of the APIs for consumer groups (edge)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from broker.handlers.guards.guard import Guard, Maker, Sieve
from broker.handlers.handler_table import Parts
from broker.handlers.offset_fetch import distinct_groups
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from kafkawire.acl import Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafkawire.messages.group_membership import (
    NULL_PROTOCOL_SINCE,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from kafkawire.messages.group_offsets import (
    ERROR_CODE_SINCE,
    GROUPS_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkawire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkawire.sentinels import NO_EPOCH, NO_OFFSET, OPERATIONS_NOT_ASKED_FOR

GROUP: Final = ResourceType.GROUP
TOPIC: Final = ResourceType.TOPIC
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_NODE: Final = -1

COORDINATORS: Final = {
    0: (Operation.DESCRIBE, GROUP, GROUP_DENIED),
    1: (
        Operation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}
"""By type of key: the operation, the type of resource, and the error."""


def of_member(refuse: Callable[[Request], object]) -> Maker:
    """Return the guard of a member's API: READ on its group."""

    def make(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
        def guarded(request: Request, message: Any) -> Reply:
            if guard.allows(request, Operation.READ, GROUP, message.group_id):
                return handle(request, message)
            return Reply(refuse(request))

        return guarded

    return make


def _refuse_join(request: Request) -> JoinGroupResponse:
    has_null = request.header.api_version >= NULL_PROTOCOL_SINCE
    return JoinGroupResponse(error_code=GROUP_DENIED, protocol_name=None if has_null else "")


def find_coordinator(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DESCRIBE on each group or transactional id."""

    def guarded(request: Request, message: FindCoordinatorRequest) -> Reply:
        found = COORDINATORS.get(message.key_type)
        if found is None:
            return handle(request, message)
        operation, kind, code = found
        if request.header.api_version < KEYS_SINCE:
            if guard.allows(request, operation, kind, message.key):
                return handle(request, message)
            return Reply(
                FindCoordinatorResponse(
                    error_code=code, error_message=code.text, node_id=NO_NODE, port=NO_NODE
                )
            )
        sieve: Sieve[str] = Sieve(
            operation=operation,
            kind=kind,
            items="coordinator_keys",
            name=str,
            response=FindCoordinatorResponse,
            results="coordinators",
            refuse=lambda key: Coordinator(
                key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=code.text
            ),
        )
        return sieve.apply(guard, request, message, handle)

    return guarded


def _refuse_commit(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


COMMITS: Final[Sieve[OffsetCommitRequestTopic]] = Sieve(
    operation=Operation.READ,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=OffsetCommitResponse,
    results="topics",
    refuse=lambda topic: _refuse_commit(topic, TOPIC_DENIED),
)
DELETIONS: Final[Sieve[OffsetDeleteRequestTopic]] = Sieve(
    operation=Operation.READ,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=OffsetDeleteResponse,
    results="topics",
    refuse=lambda topic: OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=TOPIC_DENIED
            )
            for each in topic.partitions
        ],
    ),
)


def offset_commit(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require READ on the group and on each topic."""

    def guarded(request: Request, message: OffsetCommitRequest) -> Reply:
        if guard.allows(request, Operation.READ, GROUP, message.group_id):
            return COMMITS.apply(guard, request, message, handle)
        refused = [_refuse_commit(topic, GROUP_DENIED) for topic in message.topics]
        return Reply(OffsetCommitResponse(topics=refused))

    return guarded


TRANSACTIONAL_COMMITS: Final[Sieve[TxnOffsetCommitRequestTopic]] = Sieve(
    operation=Operation.READ,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=TxnOffsetCommitResponse,
    results="topics",
    refuse=lambda topic: _refuse_transactional_commit(topic, TOPIC_DENIED),
)


def _refuse_transactional_commit(
    topic: TxnOffsetCommitRequestTopic, code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def txn_offset_commit(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require WRITE on the transactional id, and READ on the group and on each topic."""

    def guarded(request: Request, message: TxnOffsetCommitRequest) -> Reply:
        id_, kind = message.transactional_id, ResourceType.TRANSACTIONAL_ID
        if not guard.allows(request, Operation.WRITE, kind, id_):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not guard.allows(request, Operation.READ, GROUP, message.group_id):
            code = GROUP_DENIED
        else:
            return TRANSACTIONAL_COMMITS.apply(guard, request, message, handle)
        refused = [_refuse_transactional_commit(topic, code) for topic in message.topics]
        return Reply(TxnOffsetCommitResponse(topics=refused))

    return guarded


def offset_delete(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DELETE on the group and READ on each topic."""

    def guarded(request: Request, message: Any) -> Reply:
        if guard.allows(request, Operation.DELETE, GROUP, message.group_id):
            return DELETIONS.apply(guard, request, message, handle)
        return Reply(OffsetDeleteResponse(error_code=GROUP_DENIED))

    return guarded


def offset_fetch(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DESCRIBE on each group and topic; a list of all topics is filtered."""

    def guarded(request: Request, message: OffsetFetchRequest) -> Reply:
        has_groups = request.header.api_version >= GROUPS_SINCE
        fetch = _fetch_of_groups if has_groups else _fetch_of_one
        return fetch(guard, handle, request, message)

    return guarded


def _fetch_of_one(
    guard: Guard, handle: Handler, request: Request, message: OffsetFetchRequest
) -> Reply:
    has_code = request.header.api_version >= ERROR_CODE_SINCE
    if not guard.allows(request, Operation.DESCRIBE, GROUP, message.group_id):
        named = () if has_code else message.topics or ()
        refused = [_refuse_topic(each, GROUP_DENIED) for each in named]
        return Reply(OffsetFetchResponse(error_code=GROUP_DENIED, topics=refused))
    if message.topics is None:

        def allowed_only(response: OffsetFetchResponse) -> OffsetFetchResponse:
            names = [each.name for each in response.topics]
            allowed = guard.sift(request, Operation.DESCRIBE, TOPIC, names, is_logged=False)
            response.topics = [each for each in response.topics if each.name in allowed]
            return response

        return after(handle(request, message), allowed_only)
    names = [each.name for each in message.topics]
    allowed = guard.sift(request, Operation.DESCRIBE, TOPIC, names)
    left = [each for each in message.topics if each.name in allowed]
    refused = [
        _refuse_topic(each, TOPIC_DENIED) for each in message.topics if each.name not in allowed
    ]

    def add(response: OffsetFetchResponse) -> OffsetFetchResponse:
        # Without a code of the group, its error is in each partition of the request.
        if response.error_code == ErrorCode.NONE or not has_code:
            response.topics = [*response.topics, *refused]
        return response

    return after(handle(request, replace(message, topics=left)), add)


def _fetch_of_groups(
    guard: Guard, handle: Handler, request: Request, message: OffsetFetchRequest
) -> Reply:
    ids = [group.group_id for group in message.groups]
    allowed_ids = guard.sift(request, Operation.DESCRIBE, GROUP, ids)
    # The handler leaves out repeated groups, and has one result for each of the others.
    groups = distinct_groups(each for each in message.groups if each.group_id in allowed_ids)
    named = [topic.name for group in groups for topic in group.topics or ()]
    allowed = guard.sift(request, Operation.DESCRIBE, TOPIC, named)
    left = []
    refusals: list[list[OffsetFetchResponseTopics] | None] = []
    for group in groups:
        if group.topics is None:
            left.append(group)
            refusals.append(None)
            continue
        left.append(replace(group, topics=[each for each in group.topics if each.name in allowed]))
        refusals.append(
            [_refuse_group_topic(each) for each in group.topics if each.name not in allowed]
        )

    def change(response: OffsetFetchResponse) -> OffsetFetchResponse:
        # Once for all groups, which may have offsets in the same thousands of topics.
        names = dict.fromkeys(
            topic.name
            for group, refused in zip(response.groups, refusals, strict=True)
            if refused is None
            for topic in group.topics
        )
        seen = guard.sift(request, Operation.DESCRIBE, TOPIC, names, is_logged=False)
        for group, refused in zip(response.groups, refusals, strict=True):
            if refused is None:
                group.topics = [each for each in group.topics if each.name in seen]
            elif group.error_code == ErrorCode.NONE:
                group.topics = [*group.topics, *refused]
        response.groups = [
            *response.groups,
            *(
                OffsetFetchResponseGroup(group_id=each, error_code=GROUP_DENIED)
                for each in ids
                if each not in allowed_ids
            ),
        ]
        return response

    return after(handle(request, replace(message, groups=left)), change)


def _refuse_topic(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_EPOCH,
                metadata="",
                error_code=code,
            )
            for index in topic.partition_indexes
        ],
    )


def _refuse_group_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_EPOCH,
                metadata="",
                error_code=TOPIC_DENIED,
            )
            for index in topic.partition_indexes
        ],
    )


DESCRIBED: Final[Sieve[str]] = Sieve(
    operation=Operation.DESCRIBE,
    kind=GROUP,
    items="groups",
    name=str,
    response=DescribeGroupsResponse,
    results="groups",
    refuse=lambda group_id: DescribedGroup(
        error_code=GROUP_DENIED, group_id=group_id, authorized_operations=OPERATIONS_NOT_ASKED_FOR
    ),
)
DELETED: Final[Sieve[str]] = Sieve(
    operation=Operation.DELETE,
    kind=GROUP,
    items="groups_names",
    name=str,
    response=DeleteGroupsResponse,
    results="results",
    refuse=lambda group_id: DeletableGroupResult(group_id=group_id, error_code=GROUP_DENIED),
)


def describe_groups(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DESCRIBE on each group, and list its allowed operations."""

    def guarded(request: Request, message: DescribeGroupsRequest) -> Reply:
        def list_operations(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
            for group in response.groups:
                if group.authorized_operations != OPERATIONS_NOT_ASKED_FOR:
                    group.authorized_operations = guard.operations(request, GROUP, group.group_id)
            return response

        return after(DESCRIBED.apply(guard, request, message, handle), list_operations)

    return guarded


def list_groups(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """List every group for DESCRIBE on the cluster, else each group with DESCRIBE."""

    def guarded(request: Request, message: ListGroupsRequest) -> Reply:
        def allowed(response: ListGroupsResponse) -> ListGroupsResponse:
            if not guard.allows_on_cluster(request, Operation.DESCRIBE, is_logged=False):
                ids = [group.group_id for group in response.groups]
                seen = guard.sift(request, Operation.DESCRIBE, GROUP, ids, is_logged=False)
                response.groups = [group for group in response.groups if group.group_id in seen]
            return response

        return after(handle(request, message), allowed)

    return guarded


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.JOIN_GROUP: of_member(_refuse_join),
    ApiKey.SYNC_GROUP: of_member(lambda _request: SyncGroupResponse(error_code=GROUP_DENIED)),
    ApiKey.HEARTBEAT: of_member(lambda _request: HeartbeatResponse(error_code=GROUP_DENIED)),
    ApiKey.LEAVE_GROUP: of_member(lambda _request: LeaveGroupResponse(error_code=GROUP_DENIED)),
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.DELETE_GROUPS: DELETED.make,
    ApiKey.LIST_GROUPS: list_groups,
}
