"""AlterReplicaLogDirs: move replicas between the log dirs of this broker (edge)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

from broker.errors import as_api_error
from broker.handlers.handler_table import Apis
from broker.logs.mover import LogMover
from broker.network.reply import Reply
from broker.network.request_channel import Request
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
from storage.directory.logs import LogDirectory, Logs
from storage.disk.layout import can_be_copied
from storage.errors import StorageError

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda parts: (
        AlterReplicaLogDirsHandler(parts.logs, parts.replicas, parts.mover).handle
    ),
}


class AlterReplicaLogDirsHandler:
    """Starts moves; one bad partition does not fail the others."""

    def __init__(self, logs: Logs, replicas: ReplicaManager, mover: LogMover) -> None:
        self._logs = logs
        self._replicas = replicas
        self._mover = mover

    def handle(self, request: Request, message: AlterReplicaLogDirsRequest) -> Reply:
        """Respond with NONE for moves that have started or are not necessary."""
        del request
        topics: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
        refused: Counter[str] = Counter()
        for path, partition in _wishes(message):
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
        return Reply(AlterReplicaLogDirsResponse(results=results))

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
        if self._replicas.is_offline(partition):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its log dir is offline")
        if self._logs.get(partition) is None:
            # If the log is created later, it goes to this directory.
            self._logs.want_home(partition, directory)
        if self._logs.get(partition) is None or not self._replicas.holds(partition):
            # Like Kafka, not NOT_LEADER_OR_FOLLOWER, for compatibility with old clients.
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self._mover.move(partition, directory)

    def _find(self, path: str) -> LogDirectory:
        wanted = Path(path)
        for directory in self._logs.online_directories:
            if directory.path.absolute() == wanted:
                return directory
        if wanted in {offline.absolute() for offline in self._logs.offline_paths}:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log dir {path} is offline")
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log dir of this broker")


def _wishes(message: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, TopicPartition]]:
    for directory in message.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield directory.path, TopicPartition(topic.name, index)
