"""Finds, or makes, the log of each partition that a controller orders (edge).

Logs that are missing are made by threads, several at a time: each costs some fsyncs, which then
share the disk's turns, and the loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from broker.errors import as_api_error
from broker.replication.control_orders import RoleOrder
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, TopicPartition
from storage.config import LogConfig
from storage.directory import Logs
from storage.errors import InconsistentTopicIdError, StorageError
from storage.log import Log

log = structlog.get_logger(__name__)


class ReplicaOpening:
    """Puts replicas into `table`."""

    def __init__(
        self,
        table: ReplicaTable,
        logs: Logs,
        *,
        log_config_of: Callable[[str], LogConfig],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        self._table = table
        self._logs = logs
        self._log_config_of = log_config_of
        self._loop = loop
        self._now_ms = now_ms

    async def open_all(self, orders: Sequence[RoleOrder]) -> dict[TopicPartition, ErrorCode]:
        """Have a replica for each order, and return what became of each.

        One call runs at a time; between its steps nothing else makes or deletes logs.
        """
        opened = await asyncio.gather(*(self._open(order) for order in orders))
        return {order.topic_partition: code for order, code in zip(orders, opened, strict=True)}

    async def _open(self, order: RoleOrder) -> ErrorCode:
        try:
            self._set_foreign_aside(order)
            local = self._logs.get(order.topic_partition) or await self._make(order)
            local.health.check()
            if order.topic_id != ZERO_TOPIC_ID:
                local.assign_topic_id(order.topic_id)
            self._put(order, local)
        except InconsistentTopicIdError as error:
            log.error("log.not_opened", partition=str(order.topic_partition), error=str(error))
            return ErrorCode.INCONSISTENT_TOPIC_ID
        except (StorageError, OSError) as error:
            log.error("log.not_opened", partition=str(order.topic_partition), error=str(error))
            return as_api_error(error).code
        return ErrorCode.NONE

    def _set_foreign_aside(self, order: RoleOrder) -> None:
        """Put away the log of a topic of the same name, deleted while this broker was away."""
        partition, topic_id = order.topic_partition, order.topic_id
        known = self._logs.get(partition)
        if known is None or partition in self._table.by_key or topic_id == ZERO_TOPIC_ID:
            return
        if known.topic_id not in (None, topic_id):
            self._logs.set_aside_as_stray(partition)

    async def _make(self, order: RoleOrder) -> Log:
        partition = order.topic_partition
        directory = self._logs.reserve(partition, is_new=order.is_new)
        try:
            made = await self._loop.run_in_executor(
                None,
                directory.create_log,
                partition,
                self._log_config_of(partition.topic),
                None if order.topic_id == ZERO_TOPIC_ID else order.topic_id,
                self._now_ms(),
            )
        except BaseException:
            self._logs.release(partition)
            raise
        self._logs.adopt(made)
        return made

    def _put(self, order: RoleOrder, local: Log) -> None:
        partition = order.topic_partition
        replica = self._table.by_key.get(partition)
        if replica is None:
            mark = self._logs.high_watermark(partition)
            replica = Replica(partition, order.topic_id, local, mark)
            replica.update_config(self._log_config_of(partition.topic))
            self._table.add(replica)
        elif replica.topic_id == ZERO_TOPIC_ID:
            replica.topic_id = order.topic_id
