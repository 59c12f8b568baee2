"""DescribeLogDirs: the partitions of each log dir and their sizes (edge)."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.directory.logs import LogDirectory, Logs
from storage.log.log import Log

UNKNOWN_SIZE = -1

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_LOG_DIRS: lambda parts: (
        DescribeLogDirsHandler(parts.logs, parts.replicas).handle
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
        results = [self._describe(each, wanted) for each in self._logs.online_directories]
        results += [
            DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path.absolute())
            )
            for path in self._logs.offline_paths
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
        for each in self._logs.in_directory(directory.path):
            _add(topics, each, wanted, self._lag(each), is_future=False)
        for copy in self._logs.futures:
            original = self._logs.get(copy.topic_partition)
            if self._logs.futures.directory_of(copy.topic_partition) is directory and original:
                lag = original.log_end_offset - copy.log_end_offset
                _add(topics, copy, wanted, lag, is_future=True)
        total_bytes, usable_bytes = _space(directory.path)
        return DescribeLogDirsResult(
            log_dir=str(directory.path.absolute()),
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
