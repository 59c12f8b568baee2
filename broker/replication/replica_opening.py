"""Finds or creates the log of each partition in a controller's request (edge).

Missing logs are created by several threads at a time. Each log costs a few fsyncs, which then
overlap on disk, and the event loop is not blocked. Lack of disk space or file descriptors is
temporary: the request for such a partition is accepted, and its log is created later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from broker.errors import as_api_error
from broker.replication.control_orders import RoleChange
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import (
    InconsistentTopicIdError,
    LogDirFullError,
    OutOfFilesError,
    StorageError,
)
from storage.log.log import Log

log = structlog.get_logger(__name__)


class ReplicaOpening:
    """Adds replicas with open logs to `table`."""

    def __init__(
        self,
        table: ReplicaTable,
        logs: Logs,
        *,
        log_config_of: Callable[[str], LogConfig],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
    ) -> None:
        self._table = table
        self._logs = logs
        self._log_config_of = log_config_of
        self._loop = loop
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        self._waiting: dict[TopicPartition, RoleChange] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether some role changes still wait for their logs; see `open_waiting`."""
        return bool(self._waiting)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Give up creating the logs of `partitions` that could not be created yet."""
        for partition in partitions:
            self._waiting.pop(partition, None)

    def forget_all(self) -> None:
        """Give up creating all logs that could not be created yet."""
        self._waiting.clear()

    async def open_waiting(self) -> list[RoleChange]:
        """Retry the logs that could not be created; return the role changes that have logs now.

        One log is tried first, and the others only if that succeeds: there may be thousands.
        """
        if not self._waiting:
            return []
        first = self._waiting.pop(next(iter(self._waiting)))
        await self.open_all([first])
        if first.topic_partition in self._waiting:
            return []
        changes, self._waiting = [first, *self._waiting.values()], {}
        codes = await self.open_all(changes)
        return [each for each in changes if codes[each.topic_partition] is ErrorCode.NONE]

    async def open_all(self, changes: Sequence[RoleChange]) -> dict[TopicPartition, ErrorCode]:
        """Open a replica for each role change, and return a code for each partition.

        The code of a partition that waits for disk space or descriptors is NONE, although it has no
        replica yet. One call runs at a time, and nothing else creates or deletes logs between its
        steps.
        """
        self.forget(change.topic_partition for change in changes)
        codes = {change.topic_partition: self._open(change) for change in changes}
        missing = [change for change in changes if codes[change.topic_partition] is None]
        made = await asyncio.gather(*map(self._make_and_open, missing))
        codes.update(zip((change.topic_partition for change in missing), made, strict=True))
        return {key: code or ErrorCode.NONE for key, code in codes.items()}

    async def _make_and_open(self, change: RoleChange) -> ErrorCode | None:
        try:
            await self._make(change)
        except (StorageError, OSError) as error:
            return self._give_up(change, error)
        return self._open(change)

    def _open(self, change: RoleChange) -> ErrorCode | None:
        """Open a replica with the existing log; return None if there is no log."""
        try:
            self._set_foreign_aside(change)
            local = self._logs.get(change.topic_partition)
            if local is None:
                return None
            local.health.check()
            if change.topic_id != ZERO_TOPIC_ID:
                local.assign_topic_id(change.topic_id)
            self._put(change, local)
        except (StorageError, OSError) as error:
            return self._give_up(change, error)
        return ErrorCode.NONE

    def _give_up(self, change: RoleChange, error: Exception) -> ErrorCode:
        """Return the error code of a failed role change, or keep it if the error is temporary."""
        partition = change.topic_partition
        # Not an error code: a controller that gets KAFKA_STORAGE_ERROR considers the log dir lost,
        # and never sends the partition again.
        if isinstance(error, LogDirFullError | OutOfFilesError):
            log.warning("log.opening_delayed", partition=str(partition), error=str(error))
            self._waiting[partition] = change
            return ErrorCode.NONE
        log.error("log.not_opened", partition=str(partition), error=str(error))
        if isinstance(error, InconsistentTopicIdError):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return as_api_error(error).code

    def _set_foreign_aside(self, change: RoleChange) -> None:
        """Set aside the log of a same-named topic that was deleted while this broker was down."""
        partition, topic_id = change.topic_partition, change.topic_id
        known = self._logs.get(partition)
        if known is None or partition in self._table.by_key or topic_id == ZERO_TOPIC_ID:
            return
        if known.topic_id not in (None, topic_id):
            self._logs.set_aside_as_stray(partition)

    async def _make(self, change: RoleChange) -> None:
        partition = change.topic_partition
        topic_id = None if change.topic_id == ZERO_TOPIC_ID else change.topic_id
        directory = self._logs.reserve(partition, topic_id, is_new=change.is_new)
        try:
            create = partial(
                directory.create_log, replaces_offline=bool(self._logs.table.offline_paths)
            )
            config = self._log_config_of(partition.topic)
            made = await self._loop.run_in_executor(
                None, create, partition, config, topic_id, self._now_ms()
            )
        except BaseException:
            self._logs.release(partition)
            raise
        self._logs.adopt(made)

    def _put(self, change: RoleChange, local: Log) -> None:
        partition = change.topic_partition
        replica = self._table.by_key.get(partition)
        if replica is None:
            mark = self._logs.checkpoints.high_watermark(partition)
            replica = Replica(partition, change.topic_id, local, mark, self._clock_ms)
            replica.update_config(self._log_config_of(partition.topic))
            self._table.add(replica)
        elif replica.topic_id == ZERO_TOPIC_ID:
            self._table.assign_topic_id(replica, change.topic_id)
