"""Fetch: send batches as stored on disk, now or once enough bytes are available.

The handler is an edge (it reads); `DelayedFetch` decides when a waiting fetch has enough bytes,
and the purgatory asks it after each event of its partitions (`partition_events`).
Record bytes are never touched: a response holds regions of files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.config.replication_keys import RACK_AWARE_SELECTOR
from broker.handlers.follower_fetch import FollowerFetchHandler
from broker.handlers.handler_table import Apis, Parts
from broker.handlers.leader_hint import LeaderHints
from broker.handlers.partition_data import NO_RECORDS, failed_partition, read_partition
from broker.network.reply import Reply
from broker.network.request import Request
from broker.purgatory import Purgatory
from broker.quotas.entity import CONSUMER_BYTE_RATE
from broker.quotas.throttle import Throttle
from broker.replication.fetch_session import follower_of
from broker.replication.replica import ReadResult
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_table import Key
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId, TopicPartition
from kafkawire.messages.fetch import (
    STORAGE_ERROR_SINCE,
    TOPIC_IDS_SINCE,
    ZSTD_SINCE,
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafkawire.schema import since
from kafkawire.sentinels import ISOLATION_LEVELS, READ_COMMITTED

Charge = Callable[[int], int]
"""Charges a number of bytes to the client; returns its throttle time in milliseconds."""

# Epochs of a fetch session (KIP-227) for a full fetch: to create a session, or without a session.
FULL_FETCH_EPOCHS: Final = frozenset({0, -1})
MAX_HELD_PARTITIONS: Final = 200_000
"""Limit for all waiting requests together, some 100 MB. Beyond it, fetches do not wait."""

LEADERS_SINCE: Final = since(PartitionData, "current_leader")
NODES_SINCE: Final = since(FetchResponse, "node_endpoints")
LEADER_HINTS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose response names the new leader, so that the client need not look for it."""

APIS: Final[Apis] = {
    ApiKey.FETCH: lambda parts: _handler(parts).handle,
}


class FetchHandler:
    """Reads the partitions of a request, and waits if they have too few bytes."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory[TopicPartition],
        max_bytes: int,
        followers: FollowerFetchHandler,
        throttle: Throttle | None = None,
        max_held_partitions: int = MAX_HELD_PARTITIONS,
        *,
        selects_by_rack: bool = False,
        hints: LeaderHints | None = None,
    ) -> None:
        """Limit each response to about `max_bytes`, regardless of the request.

        `throttle` charges consumers for the bytes that they receive. With `selects_by_rack`,
        consumers that name a rack read from a follower in it (KIP-392). `hints` has the addresses
        of new leaders.
        """
        self._hints = hints
        self._selects_by_rack = selects_by_rack
        self._throttle = throttle
        self._replicas = replicas
        self._purgatory = purgatory
        self._max_bytes = max_bytes
        self._followers = followers
        # Number of partitions of each waiting request.
        self._held: dict[DelayedFetch, int] = {}
        self._held_count = 0
        self._max_held_partitions = max_held_partitions

    def handle(self, request: Request, message: FetchRequest) -> Reply:
        """Return a reply that is complete unless the fetch must wait for `min_bytes`."""
        follower = follower_of(message)
        if follower is not None:
            return self._followers.handle(request, message, follower)
        if message.session_epoch not in FULL_FETCH_EPOCHS:
            # Consumers get no sessions, like in a Kafka broker with a full session cache.
            return Reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        throttle, max_bytes = self._throttle, self._max_bytes
        charge = None
        if throttle is not None and throttle.is_needed:
            max_bytes = throttle.burst(request, max_bytes)
            charge = partial(throttle.charge, request)
        reader = FetchReader(
            self._replicas,
            message,
            request.header.api_version,
            max_bytes,
            client_rack=message.rack_id if self._selects_by_rack else "",
            hints=self._hints,
            listener_name="" if self._hints is None else request.listener_name,
        )
        if message.isolation_level not in ISOLATION_LEVELS and reader.has_known_partition():
            # Kafka's code.
            return Reply(reader.refusal(ErrorCode.UNKNOWN_SERVER_ERROR))
        response = reader.read()
        if reader.is_enough or message.max_wait_ms <= 0:
            return Reply(reader.charged(response, charge))
        partition_count = sum([len(topic.partitions) for topic in message.topics])
        is_full = self._held_count + partition_count > self._max_held_partitions
        if partition_count == 0 or is_full:
            return Reply(reader.charged(response, charge))
        delayed = DelayedFetch(reader, charge, self._release)
        self._held[delayed] = partition_count
        self._held_count += partition_count
        # Remove the fetch from the purgatory when its client is gone.
        delayed.reply.on_cancel(partial(self._forget, delayed))
        self._purgatory.hold(delayed, delayed.partitions, message.max_wait_ms)
        return delayed.reply

    def _forget(self, delayed: DelayedFetch) -> None:
        self._purgatory.cancel(delayed)
        self._release(delayed)

    def _release(self, delayed: DelayedFetch) -> None:
        self._held_count -= self._held.pop(delayed, 0)


class FetchReader:
    """Reads the partitions of one request, repeatedly if it waits."""

    def __init__(
        self,
        replicas: ReplicaManager,
        message: FetchRequest,
        version: int,
        max_bytes: int,
        *,
        client_rack: str = "",
        hints: LeaderHints | None = None,
        listener_name: str = "",
    ) -> None:
        self._client_rack = client_rack
        self._hints = hints
        self._listener_name = listener_name
        # The leaders of partitions that another broker leads.
        self._new_leaders: dict[BrokerId, None] = {}
        self.message = message
        self.max_bytes = min(message.max_bytes, max_bytes)
        self.min_bytes = min(message.min_bytes, self.max_bytes)
        self._replicas = replicas
        self._version = version
        self._only_decided = message.isolation_level == READ_COMMITTED
        self.sizes: dict[Key, int] = {}
        self._size_bytes = 0
        self._must_answer = False
        # Topics by name, even if the request has ids; None for an unknown id.
        self.topics: list[tuple[str | None, FetchTopic]] = [
            (
                topic.topic
                if version < TOPIC_IDS_SINCE
                else replicas.table.topic_name(topic.topic_id),
                topic,
            )
            for topic in message.topics
        ]

    @property
    def is_enough(self) -> bool:
        """Whether the last read found enough bytes, or a result that must not wait."""
        return self._must_answer or self._size_bytes >= self.min_bytes

    def has_known_partition(self) -> bool:
        """Whether the request names a partition that exists."""
        table = self._replicas.table
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return any(
            table.missing_code((name, wanted.partition)) is not unknown
            for name, topic in self.topics
            for wanted in topic.partitions
            if name is not None
        )

    def refusal(self, code: ErrorCode) -> FetchResponse:
        """Return the response that refuses the whole request.

        Clients of old versions find the code in the partitions.
        """
        return FetchResponse(
            error_code=code,
            responses=[]
            if self._version >= TOPIC_IDS_SINCE
            else [
                FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        failed_partition(each.partition, code) for each in topic.partitions
                    ],
                )
                for topic in self.message.topics
            ],
        )

    def read(self) -> FetchResponse:
        """Read all partitions in order, within the limits.

        The first batch is returned even if it exceeds the limits (KIP-74).
        """
        self._size_bytes = 0
        self.sizes.clear()
        self._new_leaders.clear()
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=name or "",
                    topic_id=topic.topic_id,
                    partitions=[
                        self._read_partition(name, topic.topic_id, wanted)
                        for wanted in topic.partitions
                    ],
                )
                for name, topic in self.topics
            ]
        )

    def charged(self, response: FetchResponse, charge: Charge | None) -> FetchResponse:
        """Count `response`, the result of the last read, and charge the client; return it."""
        self._count()
        if self._new_leaders:
            assert self._hints is not None, "leaders are noted for hints only"
            response.node_endpoints = self._hints.nodes(
                self._new_leaders, self._listener_name, NodeEndpoint
            )
        if charge is not None:
            response.throttle_time_ms = charge(self._size_bytes)
        return response

    def _count(self) -> None:
        traffic = self._replicas.table.traffic
        if len(self.topics) == 1:
            name, topic = self.topics[0]
            counts = traffic.of(name or "")
            counts.fetch_count += len(topic.partitions)
            counts.bytes_out += self._size_bytes
            return
        for name, topic in self.topics:
            traffic.of(name or "").fetch_count += len(topic.partitions)
        for partition, size_bytes in self.sizes.items():
            traffic.of(partition[0]).bytes_out += size_bytes

    def size_of(self, partition: Key, topic_id: TopicId, wanted: FetchPartition) -> int | None:
        """Return the number of bytes that a read of one partition finds; None to respond now."""
        try:
            result = self._read(partition, topic_id, wanted, self.max_bytes, min_one_batch=True)
        except ApiError:
            return None
        if result.diverging is not None:
            return None
        return 0 if result.records is None else result.records.size_bytes

    def _read(
        self,
        partition: Key,
        topic_id: TopicId,
        wanted: FetchPartition,
        limit: int,
        *,
        min_one_batch: bool,
    ) -> ReadResult:
        return self._replicas.read(
            partition,
            wanted.fetch_offset,
            min(wanted.partition_max_bytes, limit),
            leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            only_decided=self._only_decided,
            min_one_batch=min_one_batch,
            topic_id=topic_id,
            may_follow=bool(self._client_rack),
        )

    def _read_partition(
        self, topic: str | None, topic_id: TopicId, wanted: FetchPartition
    ) -> PartitionData:
        if topic is None:
            self._must_answer = True
            return self._failed(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
        partition = (topic, wanted.partition)
        table = self._replicas.table
        if partition not in table.by_key:
            # Nothing is raised: a request may name 20,000 partitions that are not here.
            self._must_answer = True
            return self._failed(wanted, table.missing_code(partition), partition)
        found_before = self._size_bytes
        try:
            self._check_codec(partition)
            limit = max(0, self.max_bytes - found_before)
            result = self._read(partition, topic_id, wanted, limit, min_one_batch=found_before == 0)
        except ApiError as error:
            self._must_answer = True
            return self._failed(wanted, error.code, partition)
        if self._client_rack:
            closer = self._replicas.closer_replica(
                partition, self._client_rack, wanted.fetch_offset
            )
            if closer is not None:
                self._must_answer = True
                elsewhere = read_partition(
                    wanted.partition, result._replace(records=None), result.high_watermark
                )
                elsewhere.preferred_read_replica = closer
                return elsewhere
        if result.diverging is not None:
            self._must_answer = True
            return read_partition(wanted.partition, result, result.high_watermark)
        records = result.records
        if records is not None:
            self.sizes[partition] = records.size_bytes
            self._size_bytes = found_before + records.size_bytes
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=_aborted(result) if self._only_decided else None,
            records=NO_RECORDS if records is None else records,
        )

    def _check_codec(self, partition: Key) -> None:
        """Refuse requests of versions without the topic's codec."""
        if self._version < ZSTD_SINCE:
            replica = self._replicas.leader(partition)
            if replica.log.config.compression_type == "zstd":
                raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

    def _failed(
        self, wanted: FetchPartition, code: ErrorCode, partition: Key | None = None
    ) -> PartitionData:
        topic = partition[0] if partition is not None else ""
        self._replicas.table.traffic.on_fetch_error(topic, code)
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_SINCE:
            # An older client would treat the unknown code as final.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        failed = failed_partition(wanted.partition, code)
        if code in LEADER_HINTS and partition is not None and self._version >= LEADERS_SINCE:
            leader, epoch = self._replicas.leader_of(partition)
            failed.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            if self._hints is not None and self._version >= NODES_SINCE:
                self._new_leaders[leader] = None
        return failed


class DelayedFetch:
    """A fetch that waits for `min_bytes` in total, or for a result that must not wait."""

    def __init__(
        self,
        reader: FetchReader,
        charge: Charge | None,
        on_complete: Callable[[DelayedFetch], None],
    ) -> None:
        """Wait for more bytes than the last read of `reader` has found."""
        self.reply = Reply()
        self._on_complete = on_complete
        self._charge = charge
        self._reader = reader
        self._wanted = {
            TopicPartition(name, wanted.partition): (topic.topic_id, wanted)
            for name, topic in reader.topics
            for wanted in topic.partitions
            if name is not None
        }
        self._sizes = dict(reader.sizes)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Partitions that it waits for."""
        return list(self._wanted)

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether there are enough bytes; only `changed` is read again."""
        if changed is None:
            # The reader has read all partitions in this turn of the loop.
            return self._reader.is_enough
        size = self._reader.size_of(changed, *self._wanted[changed])
        if size is None:
            return True
        self._sizes[changed] = size
        return sum(self._sizes.values()) >= self._reader.min_bytes

    def complete(self) -> None:
        """Respond with the bytes available now."""
        self._on_complete(self)
        if not self.reply.cancelled:
            reader = self._reader
            self.reply.complete(reader.charged(reader.read(), self._charge))


def _aborted(result: ReadResult) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in result.aborted
    ]


def _handler(parts: Parts) -> FetchHandler:
    max_bytes = parts.config.server.fetch_max_bytes
    followers = FollowerFetchHandler(
        parts.replicas,
        parts.purgatory,
        loop=parts.loop,
        max_sessions=parts.config.server.max_incremental_fetch_session_cache_slots,
        max_bytes=max_bytes,
        clock_ms=parts.clock_ms,
        may_be=parts.peers.may_be,
    )
    throttle = Throttle(parts.configs.quotas, CONSUMER_BYTE_RATE, parts.clock_ms)
    return FetchHandler(
        parts.replicas,
        parts.purgatory,
        max_bytes,
        followers,
        throttle,
        selects_by_rack=parts.config.replication.replica_selector_class == RACK_AWARE_SELECTOR,
        hints=LeaderHints(parts.replicas.leader_of, parts.metadata),
    )
