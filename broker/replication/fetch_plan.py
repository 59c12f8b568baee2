"""Selects the partitions that a follower requests from one leader next (decision).

A partition that failed backs off, at first for a very short time: just after an election, a
follower may learn of the new leader before the leader itself does. The other partitions continue
meanwhile. Within a fetch session (KIP-227) a request names only changed partitions; a leader
without sessions gets all of them each time. Invariant: for each followed partition that is not
backing off, the leader's session matches this broker's last request, or the next request corrects
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.cluster.control_fence import ControlFence
from broker.config.replication_keys import ReplicationKeys
from broker.replication.fetch_session import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from broker.replication.replica import Replica
from broker.replication.replica_table import Key, TopicNames
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId
from kafkawire.messages.fetch import (
    BROKER_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

FIRST_BACKOFF_MS: Final = 10
MAX_LISTED_PARTITIONS: Final = 4_000
"""With as many topics, still fewer elements than a broker accepts in one ListOffsets request."""
SESSION_ENDED: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors after which the follower just begins another session."""


class FollowedPartition:
    """A partition that is copied from one leader in one leader epoch."""

    __slots__ = (
        "_backoff_ms",
        "leader_epoch",
        "leader_high_watermark",
        "ready_at_ms",
        "replica",
        "requested_offset",
        "requested_start",
        "topic_id",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.topic_id = replica.topic_id
        self.leader_epoch = replica.leader_epoch
        self.requested_offset = self.requested_start = Offset(-1)
        self.leader_high_watermark = 0
        self.ready_at_ms = 0
        self._backoff_ms = FIRST_BACKOFF_MS

    @property
    def is_current(self) -> bool:
        """Whether the log still ends at the offset of the last request."""
        return self.replica.log.log_end_offset == self.requested_offset

    @property
    def has_moved(self) -> bool:
        """Whether the log end or log start offset differs from the last request.

        Retention on this broker moves the log start, too.
        """
        local = self.replica.log
        return not self.is_current or local.log_start_offset != self.requested_start

    @property
    def lag(self) -> int:
        """Committed records of the leader that this log lacks, as of the last response."""
        return max(0, self.leader_high_watermark - self.replica.log.log_end_offset)

    @property
    def position(self) -> tuple[Offset, LeaderEpoch]:
        """Log end offset and newest epoch, which the leader compares."""
        local = self.replica.log
        return local.log_end_offset, local.leader_epochs.latest

    def on_success(self) -> None:
        """Reset the back-off."""
        self._backoff_ms = FIRST_BACKOFF_MS

    def back_off(self, now_ms: int, max_backoff_ms: int) -> None:
        """Back off, twice as long after each further failure."""
        self.ready_at_ms = now_ms + min(self._backoff_ms, max_backoff_ms)
        self._backoff_ms = min(self._backoff_ms * 2, max(max_backoff_ms, FIRST_BACKOFF_MS))

    def next_fetch(self, max_bytes: int) -> FetchPartition:
        """Return the partition's part of the next request."""
        local = self.replica.log
        self.requested_offset = local.log_end_offset
        self.requested_start = local.log_start_offset
        return FetchPartition(
            partition=self.replica.topic_partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.requested_offset,
            last_fetched_epoch=local.leader_epochs.latest,
            log_start_offset=self.requested_start,
            partition_max_bytes=max_bytes,
        )


class FetchPlan:
    """The partitions that are copied from one leader, and their state in its fetch session."""

    def __init__(self, broker_id: BrokerId, config: ReplicationKeys, fence: ControlFence) -> None:
        """Fetch as the incarnation of this broker whose epoch is in `fence`."""
        self._broker_id = broker_id
        self._fence = fence
        self._config = config
        self._partitions: dict[Key, FollowedPartition] = {}
        self._topic_names = TopicNames()
        # No set, whose order differs between processes.
        self._paused: dict[Key, None] = {}
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        # State of the leader's session: partitions in it, changed ones, and ones to remove from it.
        self._in_session: dict[Key, TopicId] = {}
        self._changed: dict[Key, None] = {}
        self._to_forget: set[tuple[Key, TopicId]] = set()

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def has_topic_without_id(self) -> bool:
        """Whether topics must be named by their names, as one has no id."""
        return ZERO_TOPIC_ID in self._topic_names

    def topic_name(self, topic_id: TopicId) -> str:
        """Return the name of a topic that is copied; empty for any other topic."""
        return self._topic_names.get(topic_id) or ""

    @property
    def has_ready(self) -> bool:
        """Whether there is a partition that is not paused."""
        return len(self._partitions) > len(self._paused)

    def followed(self) -> list[FollowedPartition]:
        """Return the partitions, in a copy."""
        return list(self._partitions.values())

    def add(self, replica: Replica) -> None:
        """Copy a partition from now on, starting at its log end offset."""
        key = replica.topic_partition
        former = self._partitions.get(key)
        if former is not None:
            self._topic_names.discard(former.topic_id)
        self._partitions[key] = FollowedPartition(replica)
        self._topic_names.add(replica.topic_id, key.topic)
        self._paused.pop(key, None)
        self._changed[key] = None

    def remove(self, keys: Iterable[Key]) -> None:
        """Stop copying partitions."""
        for key in keys:
            followed = self._partitions.pop(key, None)
            if followed is not None:
                self._topic_names.discard(followed.topic_id)
                self._paused.pop(key, None)
                self._forget(key)

    def get(self, key: Key) -> FollowedPartition | None:
        """Return the state of a partition; None if it is not copied from this leader."""
        return self._partitions.get(key)

    def changed(self) -> list[FollowedPartition]:
        """Return the partitions whose offsets the next request will name, as far as known."""
        found = [self._partitions.get(key) for key in self._changed]
        return [each for each in found if each is not None]

    def on_moved(self, key: Key) -> None:
        """Send the changed log end or log start offset to the leader with the next request."""
        self._changed[key] = None

    def on_failure(self, followed: FollowedPartition, now_ms: int) -> None:
        """Back off from a partition that has failed."""
        key = followed.replica.topic_partition
        followed.back_off(now_ms, self._config.replica_fetch_backoff_ms)
        self._paused[key] = None
        self._forget(key)

    def pause(self, followed: FollowedPartition, until_ms: int) -> None:
        """Pause a partition that has not failed."""
        key = followed.replica.topic_partition
        followed.ready_at_ms = until_ms
        self._paused[key] = None
        self._forget(key)

    def resume_in_ms(self, now_ms: int) -> int | None:
        """Resume the partitions whose pause is over.

        Returns the time until the next one resumes, None if none is paused.
        """
        resumed = [key for key in self._paused if self._partitions[key].ready_at_ms <= now_ms]
        for key in resumed:
            del self._paused[key]
        self._changed.update(dict.fromkeys(resumed))
        if not self._paused:
            return None
        return min(self._partitions[key].ready_at_ms for key in self._paused) - now_ms

    def request(self, now_ms: int, version: int) -> FetchRequest:
        """Return the next request in a version of Fetch."""
        config = self._config
        max_wait_ms = config.replica_fetch_wait_max_ms
        resume_in_ms = self.resume_in_ms(now_ms)
        if self._epoch == INITIAL_EPOCH:
            self._in_session.clear()
            self._to_forget.clear()
            self._changed = dict.fromkeys(self._partitions)
        topics, forgotten = self._take_changed(version), self._take_gone()
        request = FetchRequest(
            max_wait_ms=max_wait_ms if resume_in_ms is None else min(max_wait_ms, resume_in_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        if version >= BROKER_EPOCHS_SINCE:
            request.replica_state = ReplicaState(
                replica_id=self._broker_id, replica_epoch=self._fence.broker_epoch
            )
        else:
            request.replica_id = self._broker_id
        return request

    def on_response(self, response: FetchResponse) -> None:
        """Continue the leader's session, if it keeps one."""
        if response.error_code != ErrorCode.NONE or response.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
            return
        self._session_id = response.session_id
        self._advance()

    def on_no_response(self) -> None:
        """Begin another session: the leader may or may not have handled the last request."""
        self._epoch = INITIAL_EPOCH

    def on_given_up(self) -> None:
        """Continue the session, if there is one, on another connection.

        A leader that has not handled the last request refuses the next one, and another session
        begins. If a response was on its way, the leader sends its records again. Ottla's leaders
        also send its high watermarks and log starts again; Kafka's send them when they move next.
        """
        if self._epoch != INITIAL_EPOCH:
            self._advance()

    def _advance(self) -> None:
        self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def _forget(self, key: Key) -> None:
        self._changed.pop(key, None)
        topic_id = self._in_session.pop(key, None)
        if topic_id is not None:
            self._to_forget.add((key, topic_id))

    def _take_changed(self, version: int) -> Sequence[FetchTopic]:
        changed, self._changed = self._changed, {}
        max_bytes = self._config.replica_fetch_max_bytes
        topics: list[FetchTopic] = []
        by_name: dict[str, tuple[TopicId, list[FetchPartition]]] = {}
        for key in changed:
            followed = self._partitions.get(key)
            if followed is None or key in self._paused:
                continue
            name, topic_id = key[0], followed.topic_id
            if version >= TOPIC_IDS_SINCE and self._in_session.get(key) != topic_id:
                # Removes an earlier topic of that name from the session, if there was one.
                self._forget(key)
            self._in_session[key] = topic_id
            self._to_forget.discard((key, topic_id))
            known = by_name.get(name)
            if known is None or known[0] != topic_id:
                known = by_name[name] = (topic_id, [])
                topics.append(FetchTopic(topic=name, topic_id=topic_id, partitions=known[1]))
            known[1].append(followed.next_fetch(max_bytes))
        return topics

    def _take_gone(self) -> Sequence[ForgottenTopic]:
        gone: dict[tuple[str, TopicId], list[int]] = {}
        for (name, index), topic_id in self._to_forget:
            gone.setdefault((name, topic_id), []).append(index)
        self._to_forget.clear()
        return [
            ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
            for (name, topic_id), indexes in gone.items()
        ]


def offset_requests(
    broker_id: BrokerId, partitions: Sequence[FollowedPartition], timestamp: int
) -> Iterator[ListOffsetsRequest]:
    """Yield the requests for the offsets of `partitions` that `timestamp` denotes.

    A follower whose disk was replaced needs them for all partitions of a leader at once.
    """
    for start in range(0, len(partitions), MAX_LISTED_PARTITIONS):
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for followed in partitions[start : start + MAX_LISTED_PARTITIONS]:
            name, index = followed.replica.topic_partition
            wanted = ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=followed.leader_epoch,
                timestamp=timestamp,
            )
            topics.setdefault(name, []).append(wanted)
        yield ListOffsetsRequest(
            replica_id=broker_id,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
        )
