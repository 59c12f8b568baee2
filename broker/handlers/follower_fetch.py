"""Fetch by a follower: all records of the leader, committed or not (edge).

A follower's fetch offset reports its log end offset, so the fetch may advance the high watermark.
The fetch waits until there are records; an advanced high watermark is sent with the next response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.handlers.partition_data import failed_partition, read_partition
from broker.network.reply import Reply
from broker.network.request import Request
from broker.purgatory import Purgatory
from broker.replication.fetch_session import FetchSessions, Follower, FollowerSession
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_table import Key
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kafkawire.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

# Caught-up followers are recorded as such this many times per replica.lag.time.max.ms, after which
# they would leave the in-sync set.
TOUCHES_PER_LAG_LIMIT: Final = 20
MAX_TOUCH_INTERVAL_MS: Final = 500


class FollowerFetchHandler:
    """Serves the followers of the partitions that this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        *,
        loop: asyncio.AbstractEventLoop,
        max_sessions: int,
        max_bytes: int,
        clock_ms: Callable[[], int],
        may_be: Callable[[BrokerId, Request], bool] = lambda _broker_id, _request: True,
    ) -> None:
        """Keep at most `max_sessions`; limit each response to about `max_bytes`.

        `may_be` returns whether a broker may have sent a request.
        """
        self._may_be = may_be
        self.replicas = replicas
        self.purgatory = purgatory
        self.loop = loop
        self.sessions = FetchSessions(max_sessions)
        self.max_bytes = max_bytes
        self.clock_ms = clock_ms
        self._touch_interval_ms = min(
            replicas.config.replica_lag_time_max_ms // TOUCHES_PER_LAG_LIMIT, MAX_TOUCH_INTERVAL_MS
        )
        replicas.events.on_change(self.sessions.on_change)

    def handle(self, request: Request, message: FetchRequest, follower: Follower) -> Reply:
        """Return a reply that is complete unless the fetch must wait for records."""
        if not self._may_be(follower.broker_id, request):
            return Reply(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        now_ms, version = self.clock_ms(), request.header.api_version
        found = self.sessions.find(
            message,
            follower,
            now_ms,
            is_registered=self.replicas.is_registered(follower.broker_id),
            connection_number=request.connection.number,
        )
        if not isinstance(found, FollowerSession):
            return Reply(FetchResponse(error_code=found))
        session = found
        session.on_request(request.connection.number)
        fetch = FollowerFetch(self, session, message, version)
        self._update(fetch, session, message, version)
        session.has_refused = fetch.has_refused
        self._touch(session, now_ms)
        may_wait = message.max_wait_ms > 0 and session.partitions
        if fetch.read_first(now_ms) or not may_wait:
            fetch.complete()
        else:
            fetch.wait()
        return fetch.reply

    def _update(
        self, fetch: FollowerFetch, session: FollowerSession, message: FetchRequest, version: int
    ) -> None:
        """Apply the changes in a request to its session; refuse partitions without a replica."""
        has_ids = version >= TOPIC_IDS_SINCE
        for topic in message.topics:
            name = self.replicas.table.topic_name(topic.topic_id) if has_ids else topic.topic
            if name is None:
                fetch.refuse_unknown(topic)
                continue
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                if key in self.replicas.table:
                    self.sessions.want(session, key, wanted, topic.topic_id)
                else:
                    self.sessions.forget(session, key)
                    fetch.refuse(key, topic.topic_id)
        for gone in message.forgotten_topics_data:
            name = session.topic_names.get(gone.topic_id) if has_ids else gone.topic
            for index in gone.partitions:
                if name is not None:
                    self.sessions.forget(session, (name, index))

    def _touch(self, session: FollowerSession, now_ms: int) -> None:
        """Record that the follower is still caught up with its inactive partitions."""
        if now_ms - session.touched_at_ms < self._touch_interval_ms:
            return
        session.touched_at_ms = now_ms
        for key in session.partitions:
            if key in session.active:
                continue
            follower = session.follower
            marks = self.replicas.followers.on_idle(
                key, follower.broker_id, now_ms, broker_epoch=follower.broker_epoch
            )
            if marks != session.sent.get(key):
                # The log start offset moves when old segments are deleted.
                session.active[key] = None


class FollowerFetch:
    """One request of a follower, as an operation of the purgatory."""

    def __init__(
        self,
        handler: FollowerFetchHandler,
        session: FollowerSession,
        message: FetchRequest,
        version: int,
    ) -> None:
        self.reply = Reply()
        self._handler = handler
        self._replicas = handler.replicas
        self._session = session
        self._max_wait_ms = message.max_wait_ms
        self._version = version
        self._refused: list[FetchableTopicResponse] = []
        self._max_bytes = min(message.max_bytes, handler.max_bytes)
        self._min_bytes = min(message.min_bytes, self._max_bytes)
        self._size_bytes = 0
        self._must_answer = False
        self._sizes: dict[Key, int] = {}
        self._changed: dict[Key, None] = {}
        # Results of a read in this turn of the loop.
        self._found: list[tuple[Key, PartitionData, bool]] | None = None

    @property
    def has_refused(self) -> bool:
        """Whether the response holds failures of partitions that are not in the session."""
        return bool(self._refused)

    def refuse_unknown(self, topic: FetchTopic) -> None:
        """Respond that the id of `topic` is unknown."""
        failed = [
            failed_partition(each.partition, ErrorCode.UNKNOWN_TOPIC_ID)
            for each in topic.partitions
        ]
        self._add_refused(FetchableTopicResponse(topic_id=topic.topic_id, partitions=failed))

    def refuse(self, key: Key, topic_id: TopicId) -> None:
        """Respond with the error of a partition without a replica on this broker."""
        failed = failed_partition(key[1], self._replicas.table.missing_code(key))
        self._add_refused(
            FetchableTopicResponse(topic=key[0], topic_id=topic_id, partitions=[failed])
        )

    def _add_refused(self, topic: FetchableTopicResponse) -> None:
        self._refused.append(topic)
        self._must_answer = True

    def read_first(self, now_ms: int) -> bool:
        """Read, and record the follower's progress; return whether to respond at once."""
        session = self._session
        self._found = self._read_active(now_ms)
        for key, data, is_complete in self._found:
            marks = (data.high_watermark, data.log_start_offset)
            if is_complete and not session.must_send(key, marks):
                session.on_sent(key, marks, is_complete=True)
        return self._must_answer or self._size_bytes >= self._min_bytes

    def wait(self) -> None:
        """Wait for records, at most for the timeout in the request."""
        handler = self._handler
        self._found = None
        self._session.waiting = self
        self.reply.on_cancel(self._forget)
        handler.purgatory.hold(self, (), self._max_wait_ms)

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Return False: the session notifies this fetch of changes instead."""
        del changed
        return False

    def give_way(self) -> None:
        """Respond without records, and leave the session to the next request."""
        self._handler.purgatory.cancel(self)
        self._session.waiting = None
        if not self.reply.cancelled:
            self.reply.complete(FetchResponse(session_id=self._session.session_id))

    def complete(self) -> None:
        """Respond with the records available now."""
        session = self._session
        if session.waiting is self:
            session.waiting = None
        if not self.reply.cancelled:
            self.reply.complete(self._answer())
        if not session.session_id:
            self._handler.sessions.drop(session)

    def _forget(self) -> None:
        self._handler.purgatory.cancel(self)
        if self._session.waiting is self:
            self._session.waiting = None
        if not self._session.session_id:
            self._handler.sessions.drop(self._session)

    def on_partition_changed(self, key: Key) -> None:
        """Schedule one check for all partitions that change in this turn of the loop."""
        if not self._changed:
            self._handler.loop.call_soon(self._check_changed)
        self._changed[key] = None

    def _check_changed(self) -> None:
        """Respond if the changed partitions justify it."""
        changed, self._changed = self._changed, {}
        if self.reply.is_done or self.reply.cancelled:
            return
        self._size_bytes = 0
        if any(self._is_worth_it(key) for key in changed):
            self._handler.purgatory.cancel(self)
            self.complete()

    def _is_worth_it(self, key: Key) -> bool:
        """Whether the state of a partition, with the others, justifies a response."""
        wanted = self._session.partitions.get(key)
        if wanted is None:
            return False
        end_offset = self._replicas.followers.end_offset_in(key, wanted.current_leader_epoch)
        if end_offset is None:
            return True
        if end_offset <= wanted.fetch_offset or self._is_held_back(key):
            return False
        if self._min_bytes > 1:
            self._read(key, wanted)
            return self._must_answer or sum(self._sizes.values()) >= self._min_bytes
        return True

    def _answer(self) -> FetchResponse:
        session = self._session
        topics: dict[str, list[PartitionData]] = {}
        sent: list[Key] = []
        for key, data, is_complete in self._found or self._read_active():
            marks = (data.high_watermark, data.log_start_offset)
            size_bytes = self._sizes.get(key, 0)
            if size_bytes:
                self._replicas.table.traffic.of(key[0]).replication_bytes_out += size_bytes
                self._replicas.followers.on_sent(key, size_bytes, self._handler.clock_ms())
            if not self._is_empty(key) or session.must_send(key, marks):
                topics.setdefault(key[0], []).append(data)
                sent.append(key)
            session.on_sent(key, marks, is_complete=is_complete, has_records=size_bytes > 0)
        session.on_response(sent)
        responses = [
            FetchableTopicResponse(
                topic=name, topic_id=session.topic_ids.get(name, ZERO_TOPIC_ID), partitions=each
            )
            for name, each in topics.items()
        ]
        responses += self._refused
        return FetchResponse(session_id=session.session_id, responses=responses)

    def _read_active(self, now_ms: int | None = None) -> list[tuple[Key, PartitionData, bool]]:
        self._size_bytes = 0
        session = self._session
        return [
            (key, *self._read(key, session.partitions[key], now_ms=now_ms))
            for key in list(session.active)
        ]

    def _read(
        self, key: Key, wanted: FetchPartition, *, now_ms: int | None = None
    ) -> tuple[PartitionData, bool]:
        """Read one partition; with `now_ms`, also record the follower's progress.

        The second value is whether the follower is at the leader's log end offset.
        """
        self._sizes.pop(key, None)
        follower = self._session.follower
        try:
            result = self._replicas.followers.read(
                key,
                follower.broker_id,
                wanted.fetch_offset,
                max(0, min(wanted.partition_max_bytes, self._max_bytes - self._size_bytes)),
                leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                min_one_batch=self._size_bytes == 0,
                topic_id=self._session.topic_ids.get(key[0], ZERO_TOPIC_ID),
            )
        except ApiError as error:
            self._must_answer = True
            return failed_partition(wanted.partition, error.code), False
        if result.diverging is not None:
            self._must_answer = True
            return read_partition(wanted.partition, result, result.high_watermark), False
        high_watermark = result.high_watermark
        if now_ms is not None:
            high_watermark = self._replicas.followers.on_fetch(
                key,
                follower.broker_id,
                wanted.fetch_offset,
                broker_epoch=follower.broker_epoch,
                log_start_offset=wanted.log_start_offset,
                now_ms=now_ms,
            )
        if result.records is not None and self._is_held_back(key):
            result = result._replace(records=None)
        size_bytes = 0 if result.records is None else result.records.size_bytes
        self._sizes[key] = size_bytes
        self._size_bytes += size_bytes
        is_complete = wanted.fetch_offset >= result.log_end_offset
        return read_partition(wanted.partition, result, high_watermark), is_complete

    def _is_held_back(self, key: Key) -> bool:
        follower = self._session.follower.broker_id
        return self._replicas.followers.is_held_back(key, follower, self._handler.clock_ms())

    def _is_empty(self, key: Key) -> bool:
        """Whether the last read of a partition found neither records nor an error."""
        return self._sizes.get(key) == 0
