"""Commits and fetches the offsets of a group (edge)."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeAlias

from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition, by_topic
from kafkawire.messages.group_offsets import (
    GROUPS_SINCE,
    STABLE_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kafkawire.sentinels import NO_OFFSET
from ottla.client.errors import CommitFailedError, OttlaError, no_result
from ottla.client.network.commit_order import CommitCall, CommitOrder, OvertakenError
from ottla.client.network.coordinator import Coordinator
from ottla.client.network.group_coordinator import Verdict, judge
from ottla.client.network.partition_lookup import is_unknown_topic, with_patience
from ottla.client.offset import CommittedOffset, Identity
from ottla.client.request_parts import parts
from ottla.client.retry import Backoff, retry

Author: TypeAlias = Callable[[], Identity]
"""Function that returns the identity for a commit; called when the request is sent.

It raises CommitFailedError once the consumer may no longer commit these offsets.
"""

OnStored: TypeAlias = Callable[[Mapping[TopicPartition, CommittedOffset]], None]


class OffsetStore:
    """Commits and fetches offsets of one group, for a member or without membership."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        group_instance_id: str | None,
        backoff: Backoff,
        timeout_s: float,
    ) -> None:
        self._coordinator = coordinator
        self._group_instance_id = group_instance_id
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._order = CommitOrder()
        self._turn = asyncio.Lock()
        self._turn_count = 0
        """Number of calls that take their turn, or wait for it."""

    async def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        author: Author,
        on_stored: OnStored | None = None,
    ) -> None:
        """Commit `offsets`; once this returns, the next owner of a partition starts there.

        During a rebalance it retries, as long as `author` returns an identity. A topic that the
        coordinator does not know is new, or was deleted: it may appear within
        `UNKNOWN_PATIENCE_S`. Of overlapping calls the last one counts: offsets for which a later
        call succeeds are not sent again. `on_stored` is called with the others.

        Raises:
            UnknownTopicError: a topic does not exist; the offsets of the others were committed.
            CommitFailedError: another member may own the partitions; nothing was committed, or of
                thousands of offsets only some.
            OttlaError: the coordinator refuses, or cannot be reached within the timeout.
        """
        with self._order.call(offsets) as call:
            last: OttlaError | None = None

            async def attempt() -> None:
                nonlocal last
                if last is not None and call.is_followed():
                    # A later call may replace these offsets: back off once more.
                    raise last
                try:
                    sent = await self._send(call, author)
                except OttlaError as error:
                    last = error
                    raise
                if on_stored is not None and sent:
                    on_stored(sent)

            await retry(attempt, self._backoff, self._timeout_s, with_patience(_may_pass))

    async def commit_once(
        self, offsets: Mapping[TopicPartition, CommittedOffset], author: Author
    ) -> None:
        """Commit `offsets` without a retry.

        Raises:
            OttlaError: as `commit`, including errors that `commit` would retry.
        """
        with self._order.call(offsets) as call:
            await self._send(call, author)

    async def _send(
        self, call: CommitCall, author: Author
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Send the offsets that are left of a call, and return them.

        While a call takes several requests, later calls wait: its next request would replace their
        offsets.
        """
        if self._turn_count == 0 and len(list(parts(call.left))) <= 1:
            return await self._send_parts(call, author)
        self._turn_count += 1
        try:
            async with self._turn:
                return await self._send_parts(call, author)
        finally:
            self._turn_count -= 1

    async def _send_parts(
        self, call: CommitCall, author: Author
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Send the offsets that are left of a call, and return them.

        Very many partitions take several requests: some may be committed before an error.
        """
        sent: dict[TopicPartition, CommittedOffset] = {}
        unknown: OttlaError | None = None
        while part := next(parts(each for each in call.left.items() if each[0] not in sent), None):
            offsets = dict(part)
            sent |= offsets
            try:
                await self._send_part(call, offsets, author)
            except OttlaError as error:
                if not is_unknown_topic(error):
                    raise
                # The offsets of the other topics are committed nevertheless.
                unknown = error
        if unknown is not None:
            raise unknown
        return sent

    async def _send_part(
        self,
        call: CommitCall,
        offsets: Mapping[TopicPartition, CommittedOffset],
        author: Author,
    ) -> None:
        sent_by = Identity()

        def request(version: int) -> OffsetCommitRequest:
            nonlocal sent_by
            # Built once there is a connection: during the lookup of the coordinator the membership
            # may end, or the request of a later call may leave.
            del version
            if call.is_overtaken(offsets):
                raise OvertakenError(f"{self._coordinator.subject}: a later commit comes first")
            sent_by = author()
            call.has_sent = True
            return self._commit_request(offsets, sent_by)

        response = await self._coordinator.request(request, OffsetCommitResponse)
        results = {
            TopicPartition(topic.name, result.partition_index): result.error_code
            for topic in response.topics
            for result in topic.partitions
        }
        call.on_stored(each for each in offsets if results.get(each) == ErrorCode.NONE)
        if ErrorCode.ILLEGAL_GENERATION in results.values():
            now = author()
            if now.is_joining or now.generation != sent_by.generation:
                # The next generation has begun, and this member keeps the partitions in it.
                raise self._coordinator.refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        refused = [
            self._refused(code, each) for each, code in results.items() if code != ErrorCode.NONE
        ]
        # An unknown topic does not hide the reason why the others were not committed either.
        for error in sorted(refused, key=is_unknown_topic):
            raise error
        for each in offsets:
            if each not in results:
                raise no_result(f"{self._coordinator.subject}, {each}")

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of each partition; None where there is none.

        Raises:
            OttlaError: the coordinator refuses, or cannot be reached within the timeout.
        """
        if not partitions:
            return {}
        return await retry(
            lambda: self.committed_once(partitions), self._backoff, self._timeout_s, _may_pass
        )

    async def committed_once(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets, each asked for once; see `committed`."""
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for part in parts(sorted(partitions)):
            found |= await fetch_offsets(self._coordinator, partial(self._fetch_request, part))
        for each in partitions:
            # Not the same as a partition without an offset, where the reset policy decides.
            if each not in found:
                raise no_result(f"{self._coordinator.subject}, {each}")
        return {each: found[each] for each in partitions}

    def _commit_request(
        self, offsets: Mapping[TopicPartition, CommittedOffset], identity: Identity
    ) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self._coordinator.key,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=self._group_instance_id if identity.member_id else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        _row(index, offsets[TopicPartition(topic, index)]) for index in rows
                    ],
                )
                for topic, rows in by_topic(sorted(offsets)).items()
            ],
        )

    def _refused(self, code: int, place: TopicPartition) -> OttlaError:
        error = self._coordinator.refusal(code, place)
        if judge(error) is Verdict.LOST or code == ErrorCode.FENCED_INSTANCE_ID:
            return CommitFailedError(self._coordinator.key)
        return error

    def _fetch_request(
        self, partitions: Collection[TopicPartition], version: int
    ) -> OffsetFetchRequest:
        # At both isolation levels: no record below an offset that a transaction is about to commit
        # may be read again. Before version 7 the request cannot wait for that commit.
        stable = version >= STABLE_SINCE
        group_id, topics = self._coordinator.key, by_topic(partitions)
        if version < GROUPS_SINCE:
            rows = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ]
            return OffsetFetchRequest(group_id=group_id, topics=rows, require_stable=stable)
        wanted = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in topics.items()
        ]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=wanted)],
            require_stable=stable,
        )


async def fetch_offsets(
    coordinator: Coordinator, request: Callable[[int], OffsetFetchRequest]
) -> dict[TopicPartition, CommittedOffset | None]:
    """Return the offsets in the response to `request`; None for a partition without an offset.

    Raises:
        OttlaError: the coordinator refuses, or leaves out the group.
    """
    sent_version = 0

    def noted(version: int) -> OffsetFetchRequest:
        nonlocal sent_version
        sent_version = version
        return request(version)

    response = await coordinator.request(noted, OffsetFetchResponse)
    group: OffsetFetchResponseGroup | OffsetFetchResponse = response
    if sent_version >= GROUPS_SINCE:
        rows = [row for row in response.groups if row.group_id == coordinator.key]
        if not rows:
            raise no_result(coordinator.subject)
        group = rows[0]
    if group.error_code != ErrorCode.NONE:
        raise coordinator.refusal(group.error_code)

    found: dict[TopicPartition, CommittedOffset | None] = {}
    for topic in group.topics:
        for held in topic.partitions:
            place = TopicPartition(topic.name, held.partition_index)
            if held.error_code != ErrorCode.NONE:
                raise coordinator.refusal(held.error_code, place)
            committed = CommittedOffset(
                Offset(held.committed_offset),
                LeaderEpoch(held.committed_leader_epoch),
                held.metadata or "",
            )
            found[place] = committed if committed.offset > NO_OFFSET else None
    return found


def _row(index: int, committed: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _may_pass(error: OttlaError) -> bool:
    if isinstance(error, CommitFailedError):
        return False
    if isinstance(error, OvertakenError):
        return True
    return error.retriable or judge(error) is not Verdict.FATAL
