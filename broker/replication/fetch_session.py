"""The fetch sessions of followers: partitions remembered between requests (decision).

Within a session, each side names only changed partitions: the follower those since its last
request, the leader those since its last response (KIP-227). The leader also remembers the changed
partitions and reads only those, so the others cost nothing. A follower may give up a connection on
which it waits, and continue its session on another one. Invariant: of a partition that is not
`active`, the follower has all records and the marks that were sent. Memory is bounded: only
registered brokers get sessions, a few each, and a session holds only partitions that have a replica
on this broker.

Source: KIP-227; kafka.server.FetchSession of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from broker.replication.replica_table import Key
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicId
from kafkawire.messages.fetch import FetchPartition, FetchRequest
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH

NO_SESSION: Final = 0
SESSIONLESS_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSIONS_PER_BROKER: Final = 64
"""A follower needs one for each of its `num.replica.fetchers`. The oldest one is evicted."""
IDLE_LIMIT_MS: Final = 120_000
"""Idle time after which a session may be evicted for another one."""

Marks = tuple[int, int]
"""High watermark and log start offset, as sent to the follower."""


class Follower(NamedTuple):
    """A broker that copies; its epoch is -1 if the request has no field for it."""

    broker_id: BrokerId
    broker_epoch: int


def follower_of(message: FetchRequest) -> Follower | None:
    """Return the follower that sent a request; None for a consumer."""
    if message.replica_id >= 0:
        return Follower(BrokerId(message.replica_id), UNKNOWN_BROKER_EPOCH)
    if message.replica_state.replica_id >= 0:
        state = message.replica_state
        return Follower(BrokerId(state.replica_id), state.replica_epoch)
    return None


class WaitingFetch(Protocol):
    """A request of a session that has no response yet."""

    def on_partition_changed(self, key: Key) -> None:
        """Check whether to respond now, after a change of partition `key`."""

    def give_way(self) -> None:
        """Send an empty response: the follower has sent another request."""


class FollowerSession:
    """One follower's partitions, and the active ones among them."""

    def __init__(self, session_id: int, follower: Follower) -> None:
        self.session_id = session_id
        self.follower = follower
        self.next_epoch = INITIAL_EPOCH + 1
        self.used_at_ms = 0
        self.touched_at_ms = 0
        self.is_full = True
        """Whether the next response names all partitions, as the first one does."""
        self.partitions: dict[Key, FetchPartition] = {}
        self.active: dict[Key, None] = {}
        self.sent: dict[Key, Marks] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId | None, str] = {}
        """Names by the ids in the follower's last requests, also of deleted topics."""
        self.waiting: WaitingFetch | None = None
        self.has_refused = False
        """Whether the last response carried errors of partitions outside the session."""
        self._connection_number = -1
        self._last_sent: tuple[Key, ...] = ()

    def want(self, key: Key, wanted: FetchPartition, topic_id: TopicId) -> None:
        """Note the partition's state in a request, which includes the follower's progress."""
        before = self.partitions.get(key)
        if before is not None and before.fetch_offset == wanted.fetch_offset:
            # Named again without progress: the follower has started over, and has dropped
            # a response that arrived meanwhile.
            self.sent.pop(key, None)
        self.partitions[key] = wanted
        self.active[key] = None
        name = key[0]
        known = self.topic_ids.get(name)
        if known != topic_id:
            # The old id no longer belongs to the name.
            self.topic_names.pop(known, None)
            self.topic_ids[name] = topic_id
            self.topic_names[topic_id] = name

    def forget(self, key: Key) -> None:
        """Note that the follower no longer requests a partition."""
        self.partitions.pop(key, None)
        self.active.pop(key, None)
        self.sent.pop(key, None)

    def may_continue(self, connection_number: int) -> bool:
        """Whether the follower's state of the session still matches this one.

        The last response may have been lost if it was sent on another connection. If it carried
        errors of partitions outside the session, the follower may now wait for partitions that this
        side has removed.
        """
        return connection_number == self._connection_number or not self.has_refused

    def on_request(self, connection_number: int) -> None:
        """Note the connection of a request.

        If the last response was sent on another connection it may have been lost: send its marks
        again.
        """
        if self.waiting is not None:
            self.waiting.give_way()
        if connection_number != self._connection_number:
            self._connection_number = connection_number
            for key in self._last_sent:
                if self.sent.pop(key, None) is not None:
                    self.active[key] = None

    def on_response(self, sent: Iterable[Key]) -> None:
        """Note the partitions in a response."""
        self._last_sent = tuple(sent)
        self.is_full = False

    def on_change(self, key: Key) -> None:
        """Activate a partition that has changed."""
        self.active[key] = None
        if self.waiting is not None:
            self.waiting.on_partition_changed(key)

    def must_send(self, key: Key, marks: Marks) -> bool:
        """Whether a response must carry `marks` even without records."""
        return self.is_full or self.sent.get(key) != marks

    def on_sent(
        self, key: Key, marks: Marks, *, is_complete: bool, has_records: bool = False
    ) -> None:
        """Note the marks in a response; with `is_complete` the follower then lacks no record.

        The next response begins with the partitions of which this one has no records, as in Kafka:
        it had no room for them.
        """
        self.sent[key] = marks
        if is_complete:
            self.active.pop(key, None)
        elif has_records:
            self.active.pop(key, None)
            self.active[key] = None


class FetchSessions:
    """The sessions of all followers, at most `max_count`."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._sessions: dict[int, FollowerSession] = {}
        self._watching: dict[Key, dict[FollowerSession, None]] = {}
        self._last_id = NO_SESSION

    def __len__(self) -> int:
        return len(self._sessions)

    def on_change(self, key: Key) -> None:
        """Notify the sessions that hold a partition that it has changed in any way."""
        for session in self._watching.get(key, ()):
            session.on_change(key)

    def find(
        self,
        message: FetchRequest,
        follower: Follower,
        now_ms: int,
        *,
        is_registered: bool = True,
        connection_number: int = -1,
    ) -> FollowerSession | ErrorCode:
        """Return the session of a request, a new one if it asks for that, or an error code.

        A follower that is not registered gets a session for one request only.
        """
        session = self._sessions.get(message.session_id)
        if session is not None and session.follower.broker_id != follower.broker_id:
            # Ids are small numbers, so a broker must not use another broker's session by guessing.
            session = None
        if message.session_epoch in (SESSIONLESS_EPOCH, INITIAL_EPOCH):
            if session is not None:
                self.end(session.session_id)
            is_kept = (
                is_registered
                and message.session_epoch == INITIAL_EPOCH
                and self._has_room(follower.broker_id, now_ms)
            )
            return self._begin(follower, now_ms) if is_kept else FollowerSession(0, follower)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not session.may_continue(connection_number):
            self.end(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != message.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.next_epoch = 1 if session.next_epoch == MAX_EPOCH else session.next_epoch + 1
        session.used_at_ms, session.follower = now_ms, follower
        return session

    def want(
        self, session: FollowerSession, key: Key, wanted: FetchPartition, topic_id: TopicId
    ) -> None:
        """Add a partition to a session, or update it."""
        session.want(key, wanted, topic_id)
        self._watching.setdefault(key, {})[session] = None

    def forget(self, session: FollowerSession, key: Key) -> None:
        """Remove a partition from a session."""
        session.forget(key)
        watching = self._watching.get(key)
        if watching is not None:
            watching.pop(session, None)
            if not watching:
                del self._watching[key]

    def end(self, session_id: int) -> None:
        """End the session with that id, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.drop(session)

    def drop(self, session: FollowerSession) -> None:
        """Remove all partitions of a session."""
        for key in list(session.partitions):
            self.forget(session, key)

    def _begin(self, follower: Follower, now_ms: int) -> FollowerSession:
        self._last_id = 1 if self._last_id == MAX_EPOCH else self._last_id + 1
        session = self._sessions[self._last_id] = FollowerSession(self._last_id, follower)
        session.used_at_ms = now_ms
        return session

    def _has_room(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether another session may begin; evicts idle sessions first."""
        for each in list(self._sessions.values()):
            if now_ms - each.used_at_ms > IDLE_LIMIT_MS:
                self.end(each.session_id)
        own = [each for each in self._sessions.values() if each.follower.broker_id == broker_id]
        if len(own) >= MAX_SESSIONS_PER_BROKER:
            self.end(min(own, key=lambda each: each.used_at_ms).session_id)
        return len(self._sessions) < self._max_count
