"""The fetch sessions of consumers: partitions remembered between requests (decision), KIP-227.

Within a session, a consumer names only the partitions whose position has changed, and a response
only the ones with records, an error, or other offsets than sent before. Each request is expanded to
all partitions of its session before the guards see it, so a session outlives no permission.
Invariant: a session belongs to the connection that began it, so nobody can use it by guessing its
number. Memory is bounded by `max_count` sessions and `MAX_SESSION_PARTITIONS` partitions.

Source: KIP-227; kafka.server.FetchSession of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from broker.replication.fetch_session import (
    IDLE_LIMIT_MS,
    INITIAL_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    SESSIONLESS_EPOCH,
    follower_of,
)
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicId
from kafkawire.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kafkawire.sentinels import NO_LEADER

MAX_SESSION_PARTITIONS: Final = 200_000
"""Limit for all sessions together, some 100 MB. Beyond it, consumers get no sessions."""

T = TypeVar("T")

TopicKey: TypeAlias = str | TopicId
"""The name of a topic, or from version 13 on its id."""
Offsets: TypeAlias = tuple[int, int, int]
"""High watermark, last stable offset and log start offset, as sent to the consumer."""


class ConsumerSession:
    """The partitions that one consumer fetches over one connection."""

    def __init__(self, session_id: int, connection_number: int, version: int) -> None:
        self.session_id = session_id
        self.connection_number = connection_number
        self.version = version
        self.next_epoch = INITIAL_EPOCH + 1
        self.used_at_ms = 0
        self.partition_count = 0
        self._topics: dict[TopicKey, dict[int, FetchPartition]] = {}
        self._sent: dict[TopicKey, dict[int, Offsets]] = {}
        self._whole: list[FetchTopic] | None = None

    def update(self, message: FetchRequest) -> None:
        """Adopt the changed and forgotten partitions of a request."""
        for forgotten in message.forgotten_topics_data:
            key = self._key(forgotten)
            self.partition_count -= _forget(self._topics, key, forgotten.partitions)
            _forget(self._sent, key, forgotten.partitions)
            self._whole = None
        for topic in message.topics:
            if not topic.partitions:
                continue
            wanted = self._topics.setdefault(self._key(topic), {})
            count_before = len(wanted)
            wanted.update((each.partition, each) for each in topic.partitions)
            self.partition_count += len(wanted) - count_before
            self._whole = None

    def topics(self) -> list[FetchTopic]:
        """Return all partitions, the ones that waited longest for records first."""
        if self._whole is None:
            self._whole = [
                self._topic(key, list(wanted.values())) for key, wanted in self._topics.items()
            ]
        return self._whole

    def trimmed(self, response: FetchResponse, *, is_full: bool) -> FetchResponse:
        """Return `response` without the partitions of which the consumer knows everything.

        With `is_full` it keeps all of them, as the first response of a session does.
        """
        if response.error_code != ErrorCode.NONE:
            return response
        response.session_id = self.session_id
        kept: list[FetchableTopicResponse] = []
        for topic in response.responses:
            key = self._key(topic)
            partitions = [each for each in topic.partitions if self._is_news(key, each, is_full)]
            if partitions:
                kept.append(replace(topic, partitions=partitions))
        response.responses = kept
        return response

    def _is_news(self, key: TopicKey, data: PartitionData, is_full: bool) -> bool:
        """Whether a response must have the partition; note the offsets that it carries."""
        if data.partition_index not in self._topics.get(key, ()):
            # Forgotten since the request.
            return True
        sent = self._sent.setdefault(key, {})
        offsets = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.error_code != ErrorCode.NONE:
            sent.pop(data.partition_index, None)
            return True
        is_known = sent.get(data.partition_index) == offsets
        sent[data.partition_index] = offsets
        if _has_records(data):
            self._move_to_end(key, data.partition_index)
            return True
        is_special = data.preferred_read_replica != NO_LEADER or data.diverging_epoch.epoch >= 0
        return is_full or is_special or not is_known

    def _move_to_end(self, key: TopicKey, index: int) -> None:
        """Let the other partitions come first in the next response."""
        wanted = self._topics[key]
        wanted[index] = wanted.pop(index)
        self._topics[key] = self._topics.pop(key)
        self._whole = None

    def _topic(self, key: TopicKey, partitions: list[FetchPartition]) -> FetchTopic:
        if isinstance(key, str):
            return FetchTopic(topic=key, partitions=partitions)
        return FetchTopic(topic_id=key, partitions=partitions)

    def _key(self, topic: FetchTopic | ForgottenTopic | FetchableTopicResponse) -> TopicKey:
        return topic.topic_id if self.version >= TOPIC_IDS_SINCE else topic.topic


class ConsumerSessions:
    """The sessions of all consumers, at most `max_count`."""

    def __init__(self, max_count: int, max_partitions: int = MAX_SESSION_PARTITIONS) -> None:
        self._max_count = max_count
        self._max_partitions = max_partitions
        self._sessions: dict[int, ConsumerSession] = {}
        self._last_id = NO_SESSION
        # Of all sessions.
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(
        self, message: FetchRequest, connection_number: int, version: int, now_ms: int
    ) -> ConsumerSession | ErrorCode | None:
        """Return the session of a request, with its changes; None for a request without session."""
        session = self._sessions.get(message.session_id)
        if session is not None and (
            session.connection_number != connection_number or session.version != version
        ):
            session = None
        if message.session_epoch in (SESSIONLESS_EPOCH, INITIAL_EPOCH):
            if session is not None:
                self._end(session)
            if message.session_epoch == SESSIONLESS_EPOCH or not message.topics:
                return None
            return self._begin(message, connection_number, version, now_ms)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.next_epoch != message.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.next_epoch = 1 if session.next_epoch == MAX_EPOCH else session.next_epoch + 1
        session.used_at_ms = now_ms
        self._update(session, message)
        if self._partition_count > self._max_partitions:
            self._end(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session

    def _begin(
        self, message: FetchRequest, connection_number: int, version: int, now_ms: int
    ) -> ConsumerSession | None:
        wanted_count = _count(message.topics)
        if not self._has_room(wanted_count):
            idle = [
                one for one in self._sessions.values() if now_ms - one.used_at_ms > IDLE_LIMIT_MS
            ]
            for one in idle:
                self._end(one)
            if not self._has_room(wanted_count):
                return None
        self._last_id = 1 if self._last_id == MAX_EPOCH else self._last_id + 1
        session = ConsumerSession(self._last_id, connection_number, version)
        session.used_at_ms = now_ms
        self._update(session, message)
        self._sessions[session.session_id] = session
        return session

    def _has_room(self, wanted_count: int) -> bool:
        return (
            len(self._sessions) < self._max_count
            and self._partition_count + wanted_count <= self._max_partitions
        )

    def _update(self, session: ConsumerSession, message: FetchRequest) -> None:
        count_before = session.partition_count
        session.update(message)
        self._partition_count += session.partition_count - count_before

    def _end(self, session: ConsumerSession) -> None:
        del self._sessions[session.session_id]
        self._partition_count -= session.partition_count


class SessionHandler:
    """Expands the requests of sessions, and trims their responses."""

    def __init__(
        self, sessions: ConsumerSessions, clock_ms: Callable[[], int], handle: Handler
    ) -> None:
        """Pass all requests to `handle`, without sessions."""
        self._sessions = sessions
        self._clock_ms = clock_ms
        self._handle = handle

    def handle(self, request: Request, message: FetchRequest) -> Reply:
        """Return the reply to a request, which may name a part of its session only."""
        if message.session_epoch == SESSIONLESS_EPOCH and message.session_id == NO_SESSION:
            return self._handle(request, message)
        if follower_of(message) is not None:
            return self._handle(request, message)
        version, now_ms = request.header.api_version, self._clock_ms()
        found = self._sessions.find(message, request.connection.number, version, now_ms)
        if isinstance(found, ErrorCode):
            return Reply(FetchResponse(error_code=found))
        is_full = message.session_epoch == INITIAL_EPOCH
        alone = replace(
            message,
            session_id=NO_SESSION,
            session_epoch=SESSIONLESS_EPOCH,
            forgotten_topics_data=[],
            topics=message.topics if found is None else found.topics(),
        )
        reply = self._handle(request, alone)
        return reply if found is None else after(reply, partial(found.trimmed, is_full=is_full))


def sessions_of(parts: Parts, handle: Handler) -> Handler:
    """Return `handle` with sessions for consumers."""
    sessions = ConsumerSessions(parts.config.server.max_incremental_fetch_session_cache_slots)
    return SessionHandler(sessions, parts.clock_ms, handle).handle


def _forget(topics: dict[TopicKey, dict[int, T]], key: TopicKey, partitions: Sequence[int]) -> int:
    """Remove partitions of a topic, and then the topic if it has none; return how many it had."""
    known = topics.get(key)
    if known is None:
        return 0
    found = sum([known.pop(index, None) is not None for index in partitions])
    if not known:
        del topics[key]
    return found


def _has_records(data: PartitionData) -> bool:
    records = data.records
    if isinstance(records, bytes | memoryview):
        return len(records) > 0
    # A region of a file.
    return records is not None and getattr(records, "size_bytes", 1) > 0


def _count(topics: Sequence[FetchTopic]) -> int:
    return sum([len(topic.partitions) for topic in topics])
