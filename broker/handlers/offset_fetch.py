"""OffsetFetch (edge)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from broker.groups.commits import GroupCommits
from broker.handlers.handler_table import Apis
from broker.handlers.old_offsets import by_version
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition
from kafkawire.messages.group_offsets import (
    ERROR_CODE_SINCE,
    GROUPS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkawire.sentinels import NO_EPOCH, NO_OFFSET

GROUPS_AT_ONCE: Final = 10
"""Each may have an offset for each partition of the cluster."""
NOTHING: Final = CommittedOffset(NO_OFFSET, NO_EPOCH, "", NO_OFFSET)

Found = dict[TopicPartition, tuple[CommittedOffset, ErrorCode]]
T = TypeVar("T")
P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

APIS: Final[Apis] = {
    ApiKey.OFFSET_FETCH: lambda parts: by_version(
        parts, "fetch", OffsetFetchHandler(parts.groups.commits, parts.tasks).handle
    ),
}


class OffsetFetchHandler:
    """Returns the committed offsets of groups."""

    def __init__(self, commits: GroupCommits, tasks: RequestTasks) -> None:
        self._commits = commits
        self._tasks = tasks

    def handle(self, request: Request, message: OffsetFetchRequest) -> Reply:
        """Respond for one group, or several from version 8 on; -1 means no committed offset.

        A request for all offsets of a group that is repeated has one result.
        """
        version, must_be_stable = request.header.api_version, message.require_stable
        if version >= GROUPS_SINCE:
            groups = distinct_groups(message.groups)
            if len(groups) > GROUPS_AT_ONCE:
                return self._tasks.run(partial(self._groups_in_turns, groups, must_be_stable))
            found_groups = [self._group(each, must_be_stable) for each in groups]
            return Reply(OffsetFetchResponse(groups=found_groups))
        wanted = _named(message.topics)
        code, found = self._find(message.group_id, wanted, must_be_stable)
        if code is not ErrorCode.NONE and version < ERROR_CODE_SINCE:
            found = dict.fromkeys(wanted or (), (NOTHING, code))
        topics = _topics(OffsetFetchResponseTopic, OffsetFetchResponsePartition, found)
        return Reply(OffsetFetchResponse(error_code=code, topics=topics))

    async def _groups_in_turns(
        self, groups: Iterable[OffsetFetchRequestGroup], must_be_stable: bool
    ) -> OffsetFetchResponse:
        found = (self._group(each, must_be_stable) for each in groups)
        return OffsetFetchResponse(groups=[each async for each in in_turns(found, _row_count)])

    def _group(
        self, wanted: OffsetFetchRequestGroup, must_be_stable: bool
    ) -> OffsetFetchResponseGroup:
        code, found = self._find(wanted.group_id, _named(wanted.topics), must_be_stable)
        topics = _topics(OffsetFetchResponseTopics, OffsetFetchResponsePartitions, found)
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=code, topics=topics)

    def _find(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, must_be_stable: bool
    ) -> tuple[ErrorCode, Found]:
        """Return the offsets of the partitions in `wanted`; None means all with an offset."""
        try:
            group = self._commits.find(group_id)
        except ApiError as error:
            return error.code, {}
        if group is None:
            return ErrorCode.NONE, dict.fromkeys(wanted or (), (NOTHING, ErrorCode.NONE))
        offsets = group.offsets
        found: Found = {}
        for each in offsets.partitions() if wanted is None else wanted:
            if must_be_stable and offsets.is_pending(each):
                found[each] = NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                found[each] = offsets.get(each) or NOTHING, ErrorCode.NONE
        return ErrorCode.NONE, found


def _row_count(group: OffsetFetchResponseGroup) -> int:
    return sum(len(topic.partitions) for topic in group.topics)


def distinct_groups(groups: Iterable[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Leave out repeated requests for all offsets of a group."""
    seen: set[str] = set()
    distinct = []
    for each in groups:
        if each.topics is None and each.group_id in seen:
            continue
        if each.topics is None:
            seen.add(each.group_id)
        distinct.append(each)
    return distinct


def _named(
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(each.name, index) for each in topics for index in each.partition_indexes]


def _topics(topic_type: Callable[..., T], partition_type: type[P], found: Found) -> list[T]:
    """Return `found` by topic, in the message types for one group or for several."""
    partitions: dict[str, list[P]] = {}
    for (topic, index), (committed, code) in found.items():
        row = partition_type(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=code,
        )
        partitions.setdefault(topic, []).append(row)
    return [topic_type(name=topic, partitions=rows) for topic, rows in partitions.items()]
