"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp and by epoch (edge)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, assert_never

from broker.errors import as_api_error
from broker.handlers.handler_table import Apis
from broker.handlers.old_offset_lookup import old_offsets
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import ITEMS_PER_TURN, RequestTasks, in_turns
from broker.replication.replica import Replica
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.list_offsets import (
    LEADER_EPOCHS_SINCE,
    OFFSET_NOT_AVAILABLE_SINCE,
    TIMESTAMPS_SINCE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkawire.sentinels import (
    CONSUMER_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    ISOLATION_LEVELS,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    READ_COMMITTED,
)
from storage.errors import StorageError
from storage.segment.segment_lookup import largest_timestamp

APIS: Final[Apis] = {
    ApiKey.LIST_OFFSETS: lambda parts: (
        ListOffsetsHandler(parts.tasks, parts.replicas, parts.now_ms).handle
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda parts: (
        OffsetForLeaderEpochHandler(parts.replicas).handle
    ),
}


SEARCHES_PER_TURN: Final = 4
"""Searches by time in one turn of the loop: each reads an index, and decompresses a batch."""
SEGMENTS_PER_TURN: Final = 16
"""Segments that each of these searches opens in one turn, to find out their times."""
_WITHOUT_SEARCH: Final = frozenset(
    {LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP}
)

_Row: TypeAlias = tuple[str, ListOffsetsPartition]


class Bound(Enum):
    """Upper bound (exclusive) of a lookup."""

    LOG_END = auto()
    """For brokers."""
    HIGH_WATERMARK = auto()
    """For consumers."""
    LAST_STABLE_OFFSET = auto()
    """For consumers that read decided transactions only."""


class Found(NamedTuple):
    """A record's timestamp, offset and epoch; each is -1 if there is no record."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class Asked(NamedTuple):
    """The rules for all partitions of one request."""

    version: int
    isolation_level: int
    bound: Bound
    times: Mapping[tuple[str, int], int]
    """Number of times that the request names each partition."""


class ListOffsetsHandler:
    """Looks offsets up; one bad partition does not fail the others."""

    def __init__(
        self, tasks: RequestTasks, replicas: ReplicaManager, now_ms: Callable[[], int]
    ) -> None:
        self._tasks = tasks
        self._replicas = replicas
        self._now_ms = now_ms

    def handle(self, request: Request, message: ListOffsetsRequest) -> Reply:
        """Respond with a result for every partition; at once unless many need a search by time."""
        version = request.header.api_version
        rows = [(topic.name, wanted) for topic in message.topics for wanted in topic.partitions]
        times = Counter((name, wanted.partition_index) for name, wanted in rows)
        level, bound = message.isolation_level, Bound.LOG_END
        if message.replica_id == CONSUMER_REPLICA_ID:
            bound = Bound.LAST_STABLE_OFFSET if level == READ_COMMITTED else Bound.HIGH_WATERMARK
        asked = Asked(version, level, bound, times)
        searches = [row for row in rows if _is_search(row, version)]
        if len(searches) > SEARCHES_PER_TURN or any(map(self._count_segments, searches)):
            return self._tasks.run(partial(self._look_up_in_turns, message, rows, asked))
        return Reply(_response(message, [self._look_up(*row, asked) for row in rows]))

    async def _look_up_in_turns(
        self, message: ListOffsetsRequest, rows: Sequence[_Row], asked: Asked
    ) -> ListOffsetsResponse:
        answers: list[ListOffsetsPartitionResponse] = []
        async for row in in_turns(rows, ITEMS_PER_TURN // SEARCHES_PER_TURN):
            if _is_search(row, asked.version):
                await self._prepare(row)
            answers.append(self._look_up(*row, asked))
        return _response(message, answers)

    async def _prepare(self, row: _Row) -> None:
        """Let a search open a few segments in this turn of the loop, and the others in the next."""
        while True:
            if not self._count_segments(row):
                return
            await asyncio.sleep(0)

    def _count_segments(self, row: _Row) -> bool:
        """Prepare a search in some segments; return whether some are left."""
        topic, wanted = row
        partition = TopicPartition(topic, wanted.partition_index)
        try:
            log = self._replicas.leader(partition, wanted.current_leader_epoch).log
            return log.count_segments(SEGMENTS_PER_TURN)
        except (ApiError, StorageError, OSError):
            # The search meets it again, and responds with it.
            return False

    def _look_up(
        self, topic: str, wanted: ListOffsetsPartition, asked: Asked
    ) -> ListOffsetsPartitionResponse:
        partition = TopicPartition(topic, wanted.partition_index)
        version, level = asked.version, asked.isolation_level
        try:
            if version == 0:
                return self._find_old(partition, wanted, asked.bound)
            if asked.times[partition] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
            _check_timestamp(wanted.timestamp, version)
            if asked.bound is not Bound.LOG_END and level not in ISOLATION_LEVELS:
                # Kafka's code.
                text = f"isolation level {level} is unknown"
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            found = self._find(partition, wanted, asked.bound)
        except ApiError as error:
            return _failed(wanted, error, version)
        return _answer(wanted, found, version)

    def _find_old(
        self, partition: TopicPartition, wanted: ListOffsetsPartition, bound: Bound
    ) -> ListOffsetsPartitionResponse:
        replica = self._replicas.leader(partition, wanted.current_leader_epoch)
        log = replica.log
        try:
            offsets = old_offsets(
                [(each.base_offset, largest_timestamp(each).timestamp_ms) for each in log.segments],
                wanted.timestamp,
                wanted.max_num_offsets,
                now_ms=self._now_ms(),
                start_offset=log.log_start_offset,
                end_offset=(
                    log.log_end_offset if bound is Bound.LOG_END else replica.high_watermark
                ),
            )
        except (StorageError, OSError) as error:
            raise as_api_error(error) from error
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, old_style_offsets=offsets
        )

    def _find(
        self,
        partition: TopicPartition,
        wanted: ListOffsetsPartition,
        bound: Bound,
    ) -> Found:
        replica = self._replicas.leader(partition, wanted.current_leader_epoch)
        try:
            return find_offset(replica, wanted.timestamp, bound)
        except (StorageError, OSError) as error:
            raise as_api_error(error) from error


def _is_search(row: _Row, version: int) -> bool:
    return version == 0 or row[1].timestamp not in _WITHOUT_SEARCH


def _check_timestamp(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < TIMESTAMPS_SINCE.get(timestamp, version + 1):
        text = f"timestamp {timestamp} is not defined in version {version}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def find_offset(replica: Replica, timestamp: int, bound: Bound) -> Found:
    """Return the record that `timestamp` denotes in the log of `replica`, below `bound`.

    A time denotes the first record at or after it.

    Raises:
        ApiError: OFFSET_NOT_AVAILABLE, until the high watermark reaches the leader epoch's start.
    """
    log = replica.log
    # Tiered storage is not served: all records are local.
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return Found()
    match bound:
        case Bound.LOG_END:
            end_offset = log.log_end_offset
        case Bound.HIGH_WATERMARK:
            end_offset = replica.high_watermark
        case Bound.LAST_STABLE_OFFSET:
            end_offset = replica.last_stable_offset
        case _ as unreachable:
            assert_never(unreachable)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = log.log_start_offset
        return Found(NO_TIMESTAMP, start, log.leader_epochs.epoch_for(start))
    is_lagging = bound is not Bound.LOG_END and (
        replica.high_watermark < replica.epoch_start_offset
    )
    if timestamp == LATEST_TIMESTAMP:
        if is_lagging:
            raise _lagging(replica)
        return Found(NO_TIMESTAMP, end_offset, replica.leader_epoch)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    else:
        found = log.offset_for_timestamp(timestamp, log.log_end_offset)
    if found is not None and found[1] < end_offset:
        return Found(*found)
    if is_lagging:
        raise _lagging(replica)
    return Found()


def _lagging(replica: Replica) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"the high watermark {replica.high_watermark} has not reached the start of leader epoch "
        f"{replica.leader_epoch}, {replica.epoch_start_offset}",
    )


def _response(
    message: ListOffsetsRequest, answers: Iterable[ListOffsetsPartitionResponse]
) -> ListOffsetsResponse:
    """Return the response with `answers`, which are in the order of the request."""
    rest = iter(answers)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=list(islice(rest, len(topic.partitions)))
            )
            for topic in message.topics
        ]
    )


def _answer(
    wanted: ListOffsetsPartition, found: Found, version: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCHS_SINCE else -1,
    )


def _failed(
    wanted: ListOffsetsPartition, error: ApiError, version: int
) -> ListOffsetsPartitionResponse:
    code = error.code
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


class OffsetForLeaderEpochHandler:
    """Looks up end offsets in the epoch history of each log."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: OffsetForLeaderEpochRequest) -> Reply:
        """Respond with a result for every partition of the request."""
        del request
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[self._find(topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in message.topics
        ]
        return Reply(OffsetForLeaderEpochResponse(topics=topics))

    def _find(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            replica = self._replicas.leader(
                TopicPartition(topic, wanted.partition), wanted.current_leader_epoch
            )
        except ApiError as error:
            return EpochEndOffset(partition=wanted.partition, error_code=error.code)
        epoch, end_offset = replica.end_offset_for_epoch(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
