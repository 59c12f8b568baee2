"""Which partitions a follower asks one leader for next, and which it lets rest (decision).

A partition that failed rests for a while, at first a very short one: just after an election a
follower may know of the new leader before the leader itself does. The others go on meanwhile.
Within a fetch session (KIP-227) only what has changed is named; a leader that offers none is asked
for everything each time. Invariant: what the leader remembers of a partition that is followed and
does not rest is what was asked last, or stands in the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from broker.config_keys.replication import ReplicationKeys
from broker.replication.fetch_session import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION, Key
from broker.replication.replica_table import TopicNames
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId
from kafkawire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

if TYPE_CHECKING:
    from broker.replication.replica import Replica

FIRST_BACKOFF_MS: Final = 10
NO_REPLICA: Final = -1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_BROKER_EPOCH: Final = 15
SESSION_ENDED: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Answers after which another session is begun, and nothing is wrong."""


class FollowedPartition:
    """A partition that is copied from one leader in one leader epoch."""

    __slots__ = (
        "_backoff_ms",
        "asked_offset",
        "leader_epoch",
        "ready_at_ms",
        "replica",
        "topic_id",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.topic_id = replica.topic_id
        self.leader_epoch = replica.leader_epoch
        self.asked_offset = Offset(-1)
        self.ready_at_ms = 0
        self._backoff_ms = FIRST_BACKOFF_MS

    @property
    def is_current(self) -> bool:
        """Whether the log is still where it was when it was asked for."""
        return self.replica.log.log_end_offset == self.asked_offset

    @property
    def position(self) -> tuple[Offset, LeaderEpoch]:
        """Where the log ends, and the newest epoch in it: what a leader compares."""
        local = self.replica.log
        return local.log_end_offset, local.leader_epochs.latest

    def on_success(self) -> None:
        """Rest only shortly after the next failure."""
        self._backoff_ms = FIRST_BACKOFF_MS

    def rest(self, now_ms: int, max_backoff_ms: int) -> None:
        """Rest, each time in a row twice as long."""
        self.ready_at_ms = now_ms + min(self._backoff_ms, max_backoff_ms)
        self._backoff_ms = min(self._backoff_ms * 2, max(max_backoff_ms, FIRST_BACKOFF_MS))

    def ask(self, max_bytes: int) -> FetchPartition:
        """Return what to ask for now."""
        local = self.replica.log
        self.asked_offset = local.log_end_offset
        return FetchPartition(
            partition=self.replica.topic_partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.asked_offset,
            last_fetched_epoch=local.leader_epochs.latest,
            log_start_offset=local.log_start_offset,
            partition_max_bytes=max_bytes,
        )


class FetchPlan:
    """The partitions that are copied from one leader, and what it remembers of them."""

    def __init__(
        self, broker_id: BrokerId, config: ReplicationKeys, broker_epoch: Callable[[], int]
    ) -> None:
        """`broker_epoch` tells which life of this broker it is that fetches."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._config = config
        self._partitions: dict[Key, FollowedPartition] = {}
        self._topic_names = TopicNames()
        self._resting: set[Key] = set()
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        # Of what the leader remembers: all of it, what is not so any more, what is to go.
        self._told: dict[Key, TopicId] = {}
        self._changed: dict[Key, None] = {}
        self._gone: set[tuple[Key, TopicId]] = set()

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def has_topic_without_id(self) -> bool:
        """Whether topics cannot be named by their ids."""
        return ZERO_TOPIC_ID in self._topic_names

    def topic_name(self, topic_id: TopicId) -> str:
        """Return the name of a topic that is copied; empty for another one."""
        return self._topic_names.get(topic_id) or ""

    @property
    def is_due(self) -> bool:
        """Whether there is a partition that does not rest."""
        return len(self._partitions) > len(self._resting)

    def add(self, replica: Replica) -> None:
        """Copy a partition from now on, from where its log ends."""
        key = replica.topic_partition
        former = self._partitions.get(key)
        if former is not None:
            self._topic_names.discard(former.topic_id)
        self._partitions[key] = FollowedPartition(replica)
        self._topic_names.add(replica.topic_id, key.topic)
        self._resting.discard(key)
        self._changed[key] = None

    def remove(self, keys: Iterable[Key]) -> None:
        """Copy these no more."""
        for key in keys:
            followed = self._partitions.pop(key, None)
            if followed is not None:
                self._topic_names.discard(followed.topic_id)
                self._resting.discard(key)
                self._forget(key)

    def get(self, key: Key) -> FollowedPartition | None:
        """Return what is known of a partition; None if it is not copied from this leader."""
        return self._partitions.get(key)

    def on_moved(self, key: Key) -> None:
        """Tell the leader with the next request where the log ends, and starts, by now."""
        self._changed[key] = None

    def on_failure(self, followed: FollowedPartition, now_ms: int) -> None:
        """Let a partition rest."""
        key = followed.replica.topic_partition
        followed.rest(now_ms, self._config.replica_fetch_backoff_ms)
        self._resting.add(key)
        self._forget(key)

    def pause(self, followed: FollowedPartition, until_ms: int) -> None:
        """Let a partition rest that has not failed."""
        key = followed.replica.topic_partition
        followed.ready_at_ms = until_ms
        self._resting.add(key)
        self._forget(key)

    def rest_ms(self, now_ms: int) -> int | None:
        """Wake those that have rested; return how long the next one has to, None if none does."""
        rested = [key for key in self._resting if self._partitions[key].ready_at_ms <= now_ms]
        self._resting.difference_update(rested)
        self._changed.update(dict.fromkeys(rested))
        if not self._resting:
            return None
        return min(self._partitions[key].ready_at_ms for key in self._resting) - now_ms

    def request(self, now_ms: int, version: int) -> FetchRequest:
        """Return what to ask for now, in a version of Fetch."""
        config = self._config
        max_wait_ms = config.replica_fetch_wait_max_ms
        rest_ms = self.rest_ms(now_ms)
        if self._epoch == INITIAL_EPOCH:
            self._told.clear()
            self._gone.clear()
            self._changed = dict.fromkeys(self._partitions)
        topics, forgotten = self._take_changed(version), self._take_gone()
        tells_epoch = version >= FIRST_VERSION_WITH_BROKER_EPOCH
        return FetchRequest(
            replica_id=NO_REPLICA if tells_epoch else self._broker_id,
            replica_state=ReplicaState(
                replica_id=self._broker_id, replica_epoch=self._broker_epoch()
            )
            if tells_epoch
            else ReplicaState(),
            max_wait_ms=max_wait_ms if rest_ms is None else min(max_wait_ms, rest_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def on_response(self, response: FetchResponse) -> None:
        """Go on with the session that the leader keeps, if it does."""
        if response.error_code != ErrorCode.NONE or response.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
            return
        self._session_id = response.session_id
        self._advance()

    def on_no_response(self) -> None:
        """Begin another session: whether the leader has taken the last request is not known."""
        self._epoch = INITIAL_EPOCH

    def on_given_up(self) -> None:
        """Go on with the session, if there is one, on another connection.

        A leader that has not taken the last request refuses the next one, and another session
        begins. Of an answer that was on its way the records are sent again, and by our leaders the
        marks too; Kafka's tell a mark when it moves next.
        """
        if self._epoch != INITIAL_EPOCH:
            self._advance()

    def _advance(self) -> None:
        self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def _forget(self, key: Key) -> None:
        self._changed.pop(key, None)
        told = self._told.pop(key, None)
        if told is not None:
            self._gone.add((key, told))

    def _take_changed(self, version: int) -> Sequence[FetchTopic]:
        changed, self._changed = self._changed, {}
        max_bytes = self._config.replica_fetch_max_bytes
        topics: list[FetchTopic] = []
        by_name: dict[str, tuple[TopicId, list[FetchPartition]]] = {}
        for key in changed:
            followed = self._partitions.get(key)
            if followed is None or key in self._resting:
                continue
            name, topic_id = key[0], followed.topic_id
            if version >= FIRST_VERSION_WITH_TOPIC_IDS and self._told.get(key) != topic_id:
                # Of a former topic of that name, if there was one.
                self._forget(key)
            self._told[key] = topic_id
            self._gone.discard((key, topic_id))
            known = by_name.get(name)
            if known is None or known[0] != topic_id:
                known = by_name[name] = (topic_id, [])
                topics.append(FetchTopic(topic=name, topic_id=topic_id, partitions=known[1]))
            known[1].append(followed.ask(max_bytes))
        return topics

    def _take_gone(self) -> Sequence[ForgottenTopic]:
        gone: dict[tuple[str, TopicId], list[int]] = {}
        for (name, index), topic_id in self._gone:
            gone.setdefault((name, topic_id), []).append(index)
        self._gone.clear()
        return [
            ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
            for (name, topic_id), indexes in gone.items()
        ]
