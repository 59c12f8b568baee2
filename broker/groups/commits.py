"""Commits, fetches, deletes and expires the offsets of groups (edge).

A commit gets its response, and can be read, once it is replicated. Removed offsets get a tombstone
in the log at once, so that no later load restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import structlog

from broker.groups.group import Group
from broker.groups.offsets import Commits
from broker.groups.registry import GroupRegistry
from broker.groups.state import DEAD, EMPTY
from broker.groups.store_errors import commit_error
from broker.internal_log.store import InternalStore, KeyValue
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import CommittedOffset, group_key, offset_key, offset_value
from kafkawire.ids import TopicPartition
from kafkawire.sentinels import ACKS_ALL, ACKS_LEADER, NO_OFFSET

MAX_TOMBSTONE_BYTES: Final = 256 * 1024
"""Limit for the keys of one batch, below any sensible `max.message.bytes`."""

MAX_EARLY_DELETIONS: Final = 10_000
"""Limit of the deletions that are remembered for one load, which may fail for days."""

log = structlog.get_logger(__name__)


class GroupCommits:
    """The offsets of all groups that this broker coordinates."""

    def __init__(
        self,
        registry: GroupRegistry,
        store: InternalStore,
        *,
        metadata_max_bytes: int,
        retention_ms: int,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
        settle: Callable[[Group], None],
    ) -> None:
        """Use `now_ms` for the time of day, and `clock_ms` for deadlines."""
        self._registry = registry
        self._store = store
        self._metadata_max_bytes = metadata_max_bytes
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        self._settle = settle
        # Partitions that were deleted while one of `__consumer_offsets` was being loaded, by that
        # one, oldest first. No offsets are appended during a load, so all in its log are older.
        self._deleted_early: dict[int, dict[TopicPartition, None]] = {}

    def is_acceptable(self, committed: CommittedOffset) -> bool:
        """Whether the metadata of an offset is short enough."""
        return len(committed.metadata) <= self._metadata_max_bytes

    def commit(
        self,
        group_id: str,
        member: tuple[str, str | None, int],
        commits: Commits,
        on_done: Callable[[ErrorCode], None],
    ) -> None:
        """Store offsets for a member (id, instance id, generation), then call `on_done`."""
        generation_id = member[2]
        try:
            group = self._registry.find(group_id, may_be_unnamed=True)
            if group is None and generation_id >= 0:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
            if group is None:
                group = self._registry.find_or_add(group_id, may_be_unnamed=True)
        except ApiError as error:
            on_done(error.code)
            return
        code = group.check_commit(*member, self._clock_ms())
        self._settle(group)
        if code is not ErrorCode.NONE or not commits:
            on_done(code)
            return
        group.offsets.begin(commits)
        # The store encodes them, and reports an encoding error to `_on_stored` like any other.
        records = (
            (offset_key(group_id, each), offset_value(committed))
            for each, committed in commits.items()
        )
        self._append(group, records, partial(self._on_stored, group, commits, on_done))

    def find(self, group_id: str) -> Group | None:
        """Return a group for a fetch of its offsets, None if there is no such group.

        Raises:
            ApiError: this broker does not coordinate the group now.
        """
        group = self._registry.find(group_id, may_be_unnamed=True)
        return None if group is None or group.state is DEAD else group

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Delete offsets that are not in use; return a code for each.

        Raises:
            ApiError: no such group, or the subscriptions of its members are unknown.
        """
        group = self._registry.find(group_id)
        if group is None or group.state is DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.may_lose_offsets:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        codes = {
            each: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if group.is_subscribed_to(each.topic)
            else ErrorCode.NONE
            for each in partitions
        }
        self._clean_up(group, [each for each, code in codes.items() if code is ErrorCode.NONE])
        return codes

    def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its offsets."""
        try:
            group = self._registry.find(group_id, may_be_unnamed=True)
        except ApiError as error:
            return error.code
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        code = group.delete()
        if code is ErrorCode.NONE:
            self._settle(group)
            self._clean_up(group, group.offsets.all_partitions())
            log.info("group.deleted", group_id=group_id)
        return code

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of deleted partitions, of groups that are being loaded after that."""
        for index in self._registry.leaderships.loading_partitions():
            early = self._deleted_early.setdefault(index, {})
            early.update(dict.fromkeys(partitions))
            for oldest in list(early)[:-MAX_EARLY_DELETIONS]:
                del early[oldest]
        deleted = set(partitions)
        for group in self._registry:
            self._clean_up(group, group.offsets.partitions_among(deleted))

    def on_loaded(self, partition: int) -> None:
        """Remove the offsets of partitions that were deleted during the load of their groups."""
        if early := self._deleted_early.pop(partition, None):
            deleted = set(early)
            for group in self._registry.in_partition(partition):
                self._clean_up(group, group.offsets.partitions_among(deleted))

    def on_resign(self, partition: int) -> None:
        """Leave the deletions during a load to the next coordinator, which knows newer offsets."""
        self._deleted_early.pop(partition, None)

    def expire(self, group: Group) -> None:
        """Remove expired offsets of a group, and the group if it is empty then."""
        self._clean_up(group, group.expired_offsets(self._now_ms(), self._retention_ms))

    # Inside

    def _on_stored(
        self,
        group: Group,
        commits: Commits,
        on_done: Callable[[ErrorCode], None],
        error: ErrorCode,
        position: int,
    ) -> None:
        if error is ErrorCode.NONE:
            group.offsets.finish(commits, position)
        else:
            group.offsets.fail(commits, is_in_log=position != NO_OFFSET)
            log.info("offsets.not_committed", group_id=group.group_id, error=error.name)
        on_done(commit_error(error))

    def _clean_up(self, group: Group, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets, and the group once it is empty; write the tombstones."""
        group_id = group.group_id
        tombstones: list[KeyValue] = [
            (offset_key(group_id, each), None) for each in group.offsets.remove(partitions)
        ]
        if group.state is EMPTY and group.offsets.is_empty and not group.members.pending:
            group.delete()
        if group.state is DEAD:
            self._settle(group)
            left = group.offsets.remove(group.offsets.all_partitions())
            tombstones += [(offset_key(group_id, each), None) for each in left]
            # A group without a generation was never written.
            if group.generation_id > 0:
                tombstones.append((group_key(group_id), None))
        for batch in _batches(tombstones):
            # They need no in-sync followers, as in Kafka: the deletion is answered as done, and a
            # topic that is created again must not begin at the old offset.
            on_stored = partial(_note_removal, group_id, len(batch))
            self._append(group, batch, on_stored, acks=ACKS_LEADER)
        if group.state is DEAD:
            self._registry.remove(group)

    def _append(
        self,
        group: Group,
        records: Iterable[KeyValue],
        on_stored: Callable[[ErrorCode, int], None],
        *,
        acks: int = ACKS_ALL,
    ) -> None:
        partition = self._registry.partition_of(group)
        epoch = self._registry.leaderships.epoch(partition)
        self._store.append(partition, epoch, records, on_stored, acks=acks)


def _batches(tombstones: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    """Divide tombstones into batches of up to `MAX_TOMBSTONE_BYTES`."""
    batch: list[KeyValue] = []
    size_bytes = 0
    for tombstone in tombstones:
        key_bytes = len(tombstone[0])
        if batch and size_bytes + key_bytes > MAX_TOMBSTONE_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(tombstone)
        size_bytes += key_bytes
    if batch:
        yield batch


def _note_removal(group_id: str, record_count: int, error: ErrorCode, offset: int) -> None:
    # Not retried: the next broker that loads the group removes the rest.
    del offset
    log.info("offsets.removed", group_id=group_id, record_count=record_count, error=error.name)
