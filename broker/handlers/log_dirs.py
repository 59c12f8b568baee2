"""DescribeLogDirs and AlterReplicaLogDirs: list the log dirs, and move replicas (edge)."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from broker.errors import as_api_error
from broker.handlers.handler_table import Apis
from broker.handlers.wire_text import wire_text
from broker.logs.mover import LogMover
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkawire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.directory.logs import LogDirectory, Logs
from storage.disk.layout import can_be_copied
from storage.errors import StorageError
from storage.log.log import Log

UNKNOWN_SIZE: Final = -1

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_LOG_DIRS: lambda parts: (
        DescribeLogDirsHandler(parts.logs, parts.replicas).handle
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda parts: (
        AlterReplicaLogDirsHandler(parts.tasks, parts.logs, parts.replicas, parts.mover).handle
    ),
}


class DescribeLogDirsHandler:
    """Lists the log dirs with the requested partitions, or with all."""

    def __init__(self, logs: Logs, replicas: ReplicaManager) -> None:
        self._logs = logs
        self._replicas = replicas

    def handle(self, request: Request, message: DescribeLogDirsRequest) -> Reply:
        """Respond with a result for every log dir, including offline ones."""
        del request
        wanted = None
        if message.topics is not None:
            wanted = {
                TopicPartition(topic.topic, index)
                for topic in message.topics
                for index in topic.partitions
            }
        results = [self._describe(each, wanted) for each in self._logs.table.online_directories]
        results += [
            DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=_name(path))
            for path in self._logs.table.offline_paths
        ]
        return Reply(DescribeLogDirsResponse(results=results))

    def _lag(self, each: Log) -> int:
        """Return the number of committed offsets that the log lacks."""
        high_watermark = self._replicas.high_watermark(each.topic_partition)
        return 0 if high_watermark is None else max(0, high_watermark - each.log_end_offset)

    def _describe(
        self, directory: LogDirectory, wanted: set[TopicPartition] | None
    ) -> DescribeLogDirsResult:
        topics: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
        for each in self._logs.table.in_directory(directory.path):
            _add(topics, each, wanted, self._lag(each), is_future=False)
        for copy in self._logs.futures:
            original = self._logs.get(copy.topic_partition)
            if self._logs.futures.directory_of(copy.topic_partition) is directory and original:
                lag = original.log_end_offset - copy.log_end_offset
                _add(topics, copy, wanted, lag, is_future=True)
        total_bytes, usable_bytes = _space(directory.path)
        return DescribeLogDirsResult(
            log_dir=_name(directory.path),
            topics=[
                DescribeLogDirsTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )


def _add(
    topics: dict[str, list[DescribeLogDirsPartition]],
    each: Log,
    wanted: set[TopicPartition] | None,
    lag: int,
    *,
    is_future: bool,
) -> None:
    partition = each.topic_partition
    if wanted is None or partition in wanted:
        described = DescribeLogDirsPartition(
            partition_index=partition.partition,
            partition_size=each.size_bytes,
            offset_lag=lag,
            is_future_key=is_future,
        )
        topics.setdefault(partition.topic, []).append(described)


def _space(path: Path) -> tuple[int, int]:
    """Return the size of the file system and its free space for this process, in bytes."""
    try:
        found = os.statvfs(path)
    except OSError:
        return UNKNOWN_SIZE, UNKNOWN_SIZE
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


class AlterReplicaLogDirsHandler:
    """Starts moves; one bad partition does not fail the others."""

    def __init__(
        self, tasks: RequestTasks, logs: Logs, replicas: ReplicaManager, mover: LogMover
    ) -> None:
        self._tasks = tasks
        self._logs = logs
        self._replicas = replicas
        self._mover = mover

    def handle(self, request: Request, message: AlterReplicaLogDirsRequest) -> Reply:
        """Respond with NONE for moves that have started or are not necessary."""
        del request
        return self._tasks.run(partial(self._move_all, message))

    async def _move_all(self, message: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        topics: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
        refused: Counter[str] = Counter()
        async for path, partition in in_turns(_wishes(message)):
            code = self._move(path, partition)
            if code is not ErrorCode.NONE:
                refused[code.name] += 1
            topics[partition.topic].append(
                AlterReplicaLogDirPartitionResult(
                    partition_index=partition.partition, error_code=code
                )
            )
        if refused:
            log.info("moves.refused", counts=dict(refused))
        results = [
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
        return AlterReplicaLogDirsResponse(results=results)

    def _move(self, path: str, partition: TopicPartition) -> ErrorCode:
        try:
            self._begin(path, partition)
        except ApiError as error:
            return error.code
        except (StorageError, OSError) as error:
            log.warning("move.refused", partition=str(partition), path=path, error=str(error))
            return as_api_error(error).code
        return ErrorCode.NONE

    def _begin(self, path: str, partition: TopicPartition) -> None:
        if not can_be_copied(partition):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long")
        directory = self._find(path)
        if self._replicas.table.is_offline(partition):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its log dir is offline")
        if self._logs.get(partition) is None:
            # If the log is created later, it goes to this directory.
            self._logs.placement.want_home(partition, directory)
        if self._logs.get(partition) is None or partition not in self._replicas.table:
            # Like Kafka, not NOT_LEADER_OR_FOLLOWER, for compatibility with old clients.
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._mover.move(partition, directory)

    def _find(self, path: str) -> LogDirectory:
        wanted = str(Path(path))
        for directory in self._logs.table.online_directories:
            if _name(directory.path) == wanted:
                return directory
        if wanted in map(_name, self._logs.table.offline_paths):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log dir {path} is offline")
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log dir of this broker")


def _name(path: Path) -> str:
    return wire_text(str(path.absolute()))


def _wishes(message: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, TopicPartition]]:
    for directory in message.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield directory.path, TopicPartition(topic.name, index)
