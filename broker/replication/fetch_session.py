"""What a follower fetches from this leader, remembered between its requests (decision).

With a session a follower names only what has changed since its last request, and is told only what
has changed since the last answer (KIP-227). Here the leader also remembers which partitions have
changed: it looks at those alone, so that the others cost nothing. A follower may give up a
connection on which it waits, and go on with its session on another one. Invariant: a partition
that is not `active` is one where the follower holds everything, and knows the marks that it was
sent. What is remembered is bounded by what there is: sessions are for registered brokers, each of
which has a few, and hold partitions of which this broker has a replica.

Source: KIP-227; kafka.server.FetchSession of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from broker.replication.follower_progress import NO_EPOCH
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicId
from kafkawire.messages.fetch import FetchPartition, FetchRequest

NO_SESSION: Final = 0
SESSIONLESS_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSIONS_PER_BROKER: Final = 16
"""Of which one that fetches with several threads needs one each; the oldest gives way."""
IDLE_LIMIT_MS: Final = 120_000
"""A session that was not used for so long makes room for another one."""

Key = tuple[str, int]
Marks = tuple[int, int]
"""High watermark and log start, as they were sent."""


class Follower(NamedTuple):
    """A broker that copies; its epoch is -1 where the request cannot tell it."""

    broker_id: BrokerId
    broker_epoch: int


def follower_of(message: FetchRequest) -> Follower | None:
    """Return the follower that sent a request; None for a consumer."""
    if message.replica_id >= 0:
        return Follower(BrokerId(message.replica_id), NO_EPOCH)
    if message.replica_state.replica_id >= 0:
        state = message.replica_state
        return Follower(BrokerId(state.replica_id), state.replica_epoch)
    return None


class WaitingFetch(Protocol):
    """A request of a session that is not answered yet."""

    def on_news(self, key: Key) -> None:
        """Look whether to answer now: that partition has changed."""

    def give_way(self) -> None:
        """Answer that there is nothing: the follower has asked again."""


class FollowerSession:
    """One follower's partitions, and which of them to look at."""

    def __init__(self, session_id: int, follower: Follower) -> None:
        self.session_id = session_id
        self.follower = follower
        self.next_epoch = INITIAL_EPOCH + 1
        self.used_at_ms = 0
        self.touched_at_ms = 0
        self.is_full = True
        """Whether the next answer names all partitions, as it does once."""
        self.partitions: dict[Key, FetchPartition] = {}
        self.active: dict[Key, None] = {}
        self.sent: dict[Key, Marks] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId | None, str] = {}
        """By the ids that the follower asked for last, also of topics that are gone."""
        self.waiting: WaitingFetch | None = None
        self.has_refused = False
        """Whether the last answer told of failures that are not remembered here."""
        self._connection_number = -1
        self._told_last: tuple[Key, ...] = ()

    def want(self, key: Key, wanted: FetchPartition, topic_id: TopicId) -> None:
        """Note what the follower asks for now, which says also how far it is."""
        self.partitions[key] = wanted
        self.active[key] = None
        name = key[0]
        known = self.topic_ids.get(name)
        if known != topic_id:
            # From now on the old id has nothing to do with the name.
            self.topic_names.pop(known, None)
            self.topic_ids[name] = topic_id
            self.topic_names[topic_id] = name

    def forget(self, key: Key) -> None:
        """Note that the follower does not ask for a partition any more."""
        self.partitions.pop(key, None)
        self.active.pop(key, None)
        self.sent.pop(key, None)

    def may_go_on(self, connection_number: int) -> bool:
        """Whether the follower still knows what stands here, also of the last answer.

        One that was sent on another connection may not have arrived. If it told of failures that
        were not remembered, the follower may wait for partitions that are forgotten here.
        """
        return connection_number == self._connection_number or not self.has_refused

    def on_request(self, connection_number: int) -> None:
        """Note by which connection a request has come.

        An answer that was sent on another one may not have arrived: its marks are told again.
        """
        if self.waiting is not None:
            self.waiting.give_way()
        if connection_number != self._connection_number:
            self._connection_number = connection_number
            for key in self._told_last:
                if self.sent.pop(key, None) is not None:
                    self.active[key] = None

    def on_answer(self, told: Iterable[Key]) -> None:
        """Note what an answer names."""
        self._told_last = tuple(told)
        self.is_full = False

    def on_change(self, key: Key) -> None:
        """Look at a partition again."""
        self.active[key] = None
        if self.waiting is not None:
            self.waiting.on_news(key)

    def is_news(self, key: Key, marks: Marks) -> bool:
        """Whether marks must be told that come without records."""
        return self.is_full or self.sent.get(key) != marks

    def on_sent(self, key: Key, marks: Marks, *, is_complete: bool) -> None:
        """Note what an answer tells; `is_complete` if the follower then lacks nothing."""
        self.sent[key] = marks
        if is_complete:
            self.active.pop(key, None)
        else:
            # To the end: the next answer begins with others.
            self.active.pop(key, None)
            self.active[key] = None


class FetchSessions:
    """The sessions of all followers, of which there are at most `max_count`."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._sessions: dict[int, FollowerSession] = {}
        self._watching: dict[Key, dict[FollowerSession, None]] = {}
        self._last_id = NO_SESSION

    def __len__(self) -> int:
        return len(self._sessions)

    def on_change(self, key: Key) -> None:
        """Tell the sessions that hold a partition that it has changed in any way."""
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
        """Return the session of a request, begun if it asks for one, or why there is none.

        Only a follower that `is_registered` gets a session that lasts.
        """
        session = self._sessions.get(message.session_id)
        if session is not None and session.follower.broker_id != follower.broker_id:
            # Ids are small numbers: one broker does not end, or go on with, what another began.
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
        if not session.may_go_on(connection_number):
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
        """Have a session hold a partition from now on."""
        session.want(key, wanted, topic_id)
        self._watching.setdefault(key, {})[session] = None

    def forget(self, session: FollowerSession, key: Key) -> None:
        """Have it hold a partition no more."""
        session.forget(key)
        watching = self._watching.get(key)
        if watching is not None:
            watching.pop(session, None)
            if not watching:
                del self._watching[key]

    def end(self, session_id: int) -> None:
        """Forget a session, if there is one of that id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.drop(session)

    def drop(self, session: FollowerSession) -> None:
        """Tell a session nothing more."""
        for key in list(session.partitions):
            self.forget(session, key)

    def _begin(self, follower: Follower, now_ms: int) -> FollowerSession:
        self._last_id = 1 if self._last_id == MAX_EPOCH else self._last_id + 1
        session = self._sessions[self._last_id] = FollowerSession(self._last_id, follower)
        session.used_at_ms = now_ms
        return session

    def _has_room(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Whether another session may begin, after those that are not used made room for it."""
        for each in list(self._sessions.values()):
            if now_ms - each.used_at_ms > IDLE_LIMIT_MS:
                self.end(each.session_id)
        own = [each for each in self._sessions.values() if each.follower.broker_id == broker_id]
        if len(own) >= MAX_SESSIONS_PER_BROKER:
            self.end(min(own, key=lambda each: each.used_at_ms).session_id)
        return len(self._sessions) < self._max_count
