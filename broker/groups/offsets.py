"""The committed offsets of one group (decision).

A commit is pending from its append until it is replicated; only then can it be read. A commit in a
transaction is pending until the transaction ends. Invariant: of two commits of one partition the
later one in the log is kept, in whatever order they are replicated and reported. A commit that
failed after its append is in the log all the same: a load would find it, so its removal needs a
tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from broker.groups.undecided import Placed, UndecidedOffsets, keep_later
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition

Commits: TypeAlias = Mapping[TopicPartition, CommittedOffset]


class GroupOffsets:
    """Committed and pending offsets, by partition."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, Placed] = {}
        # In the order of the log. One may fail while an earlier one is still replicated.
        self._pending: dict[TopicPartition, list[CommittedOffset]] = {}
        # Partitions with a commit in the log that failed.
        self._unconfirmed: set[TopicPartition] = set()
        self.undecided = UndecidedOffsets()
        """Offsets of open transactions."""

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a committed nor a pending offset."""
        return not self._committed and not self._pending and not self.undecided

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have a committed offset."""
        return list(self._committed)

    def all_partitions(self) -> list[TopicPartition]:
        """Return the partitions with an offset, or with commits in the log that may become one."""
        held = self._committed.keys() | self._pending.keys() | self._unconfirmed
        return list(held | {*self.undecided})

    def partitions_among(self, partitions: set[TopicPartition]) -> list[TopicPartition]:
        """Return the ones of `all_partitions` that are in a set, however large that is."""
        # Each intersection walks through the smaller side.
        held = partitions & self._committed.keys() | partitions & self._pending.keys()
        return list(held | partitions & self._unconfirmed | partitions & {*self.undecided})

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the committed offset, None if there is none."""
        found = self._committed.get(partition)
        return found and found[0]

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit may still change what `get` returns."""
        return partition in self._pending or partition in self.undecided

    def restore(self, partition: TopicPartition, committed: CommittedOffset, position: int) -> None:
        """Adopt an offset that was read from the log, at `position`."""
        self._committed[partition] = (committed, position)

    def begin(self, commits: Commits) -> None:
        """Note commits that are being appended."""
        for partition, committed in commits.items():
            self._pending.setdefault(partition, []).append(committed)

    def finish(self, commits: Commits, position: int) -> None:
        """Adopt commits that are replicated, at `position` of the log, and forget earlier ones.

        A commit that has been removed meanwhile does not count.
        """
        for partition, committed in commits.items():
            if not self._end_pending(partition, committed, ends_earlier=True):
                continue
            held = self._committed.get(partition)
            if held is None or held[1] < position:
                self._committed[partition] = (committed, position)

    def fail(self, commits: Commits, *, is_in_log: bool) -> None:
        """Drop commits that could not be appended, or not be replicated in time (`is_in_log`)."""
        for partition, committed in commits.items():
            if self._end_pending(partition, committed) and is_in_log:
                self._unconfirmed.add(partition)

    def end_transaction(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> None:
        """Adopt or drop the offsets of a transaction whose marker is replicated."""
        taken = self.undecided.take(producer_id, marker_offset)
        if is_commit:
            keep_later(self._committed, taken)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove partitions; return the ones with records in the log, which need tombstones."""
        removed, named = [], list(partitions)
        undecided = set(self.undecided.remove(named))
        for partition in named:
            pending = self._pending.pop(partition, None)
            committed = self._committed.pop(partition, None)
            is_named = partition in undecided or partition in self._unconfirmed
            self._unconfirmed.discard(partition)
            if pending is not None or committed is not None or is_named:
                removed.append(partition)
        return removed

    def expired(
        self,
        time_ms: int,
        retention_ms: int,
        *,
        is_kept: Callable[[str], bool],
        since_ms: int | None,
    ) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (KIP-211).

        Their retention begins at `since_ms`, or if that is None with the commit itself. Offsets of
        topics that `is_kept` do not expire, nor do pending ones. An offset with an expiry time of
        its own expires then.
        """
        return [
            partition
            for partition, (committed, _) in self._committed.items()
            if not self.is_pending(partition)
            and not is_kept(partition.topic)
            and _has_expired(committed, time_ms, retention_ms, since_ms)
        ]

    def _end_pending(
        self, partition: TopicPartition, committed: CommittedOffset, *, ends_earlier: bool = False
    ) -> bool:
        """Drop a pending commit, and the earlier ones if asked; return whether it was pending."""
        pending = self._pending.get(partition, [])
        for index, each in enumerate(pending):
            # By identity: a later commit of the same offset is another one.
            if each is committed:
                del pending[0 if ends_earlier else index : index + 1]
                if not pending:
                    del self._pending[partition]
                return True
        return False


def _has_expired(
    committed: CommittedOffset, time_ms: int, retention_ms: int, since_ms: int | None
) -> bool:
    if committed.expire_timestamp_ms is not None:
        return time_ms >= committed.expire_timestamp_ms
    begin_ms = committed.commit_timestamp_ms if since_ms is None else since_ms
    return time_ms - begin_ms >= retention_ms
