"""Finds, or makes, the log of each partition that a controller orders (edge).

Logs that are missing are made by threads, several at a time: each costs some fsyncs, which then
share the disk's turns, and the loop goes on meanwhile. Where there is no space for one, or no
descriptor, that passes: the order is obeyed, and the log made when it can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog

from broker.errors import as_api_error
from broker.replication.control_orders import RoleOrder
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, TopicPartition
from storage.config import LogConfig
from storage.directory import Logs
from storage.errors import (
    InconsistentTopicIdError,
    LogDirFullError,
    OutOfFilesError,
    StorageError,
)
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
        self._waiting: dict[TopicPartition, RoleOrder] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether there are orders whose logs could not be made yet; see `open_waiting`."""
        return bool(self._waiting)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Make the logs of these no more that could not be made yet."""
        for partition in partitions:
            self._waiting.pop(partition, None)

    def forget_all(self) -> None:
        """Make none of the logs any more that could not be made yet."""
        self._waiting.clear()

    async def open_waiting(self) -> list[RoleOrder]:
        """Try again what could not be made; return the orders that have their logs now.

        One is tried first, and no other unless that goes well: there may be thousands.
        """
        if not self._waiting:
            return []
        first = self._waiting.pop(next(iter(self._waiting)))
        await self.open_all([first])
        if first.topic_partition in self._waiting:
            return []
        orders, self._waiting = [first, *self._waiting.values()], {}
        codes = await self.open_all(orders)
        return [each for each in orders if codes[each.topic_partition] is ErrorCode.NONE]

    async def open_all(self, orders: Sequence[RoleOrder]) -> dict[TopicPartition, ErrorCode]:
        """Have a replica for each order, and return what became of each.

        An order that waits for space or descriptors has no replica yet, and its code is NONE. One
        call runs at a time; between its steps nothing else makes or deletes logs.
        """
        self.forget(order.topic_partition for order in orders)
        codes = {order.topic_partition: self._open(order) for order in orders}
        missing = [order for order in orders if codes[order.topic_partition] is None]
        made = await asyncio.gather(*map(self._make_and_open, missing))
        codes.update(zip((order.topic_partition for order in missing), made, strict=True))
        return {key: code or ErrorCode.NONE for key, code in codes.items()}

    async def _make_and_open(self, order: RoleOrder) -> ErrorCode | None:
        try:
            await self._make(order)
        except (StorageError, OSError) as error:
            return self._give_up(order, error)
        return self._open(order)

    def _open(self, order: RoleOrder) -> ErrorCode | None:
        """Have a replica with the log that is there; None if there is no log."""
        try:
            self._set_foreign_aside(order)
            local = self._logs.get(order.topic_partition)
            if local is None:
                return None
            local.health.check()
            if order.topic_id != ZERO_TOPIC_ID:
                local.assign_topic_id(order.topic_id)
            self._put(order, local)
        except (StorageError, OSError) as error:
            return self._give_up(order, error)
        return ErrorCode.NONE

    def _give_up(self, order: RoleOrder, error: Exception) -> ErrorCode:
        """Refuse an order, or keep it for later where the trouble passes by itself.

        Not refused then, as a controller that was told KAFKA_STORAGE_ERROR takes the log dir for
        lost, and never asks again.
        """
        partition = order.topic_partition
        if isinstance(error, LogDirFullError | OutOfFilesError):
            log.warning("log.opening_delayed", partition=str(partition), error=str(error))
            self._waiting[partition] = order
            return ErrorCode.NONE
        log.error("log.not_opened", partition=str(partition), error=str(error))
        if isinstance(error, InconsistentTopicIdError):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return as_api_error(error).code

    def _set_foreign_aside(self, order: RoleOrder) -> None:
        """Put away the log of a topic of the same name, deleted while this broker was away."""
        partition, topic_id = order.topic_partition, order.topic_id
        known = self._logs.get(partition)
        if known is None or partition in self._table.by_key or topic_id == ZERO_TOPIC_ID:
            return
        if known.topic_id not in (None, topic_id):
            self._logs.set_aside_as_stray(partition)

    async def _make(self, order: RoleOrder) -> None:
        partition = order.topic_partition
        topic_id = None if order.topic_id == ZERO_TOPIC_ID else order.topic_id
        directory = self._logs.reserve(partition, topic_id, is_new=order.is_new)
        try:
            made = await self._loop.run_in_executor(
                None,
                directory.create_log,
                partition,
                self._log_config_of(partition.topic),
                topic_id,
                self._now_ms(),
            )
        except BaseException:
            self._logs.release(partition)
            raise
        self._logs.adopt(made)

    def _put(self, order: RoleOrder, local: Log) -> None:
        partition = order.topic_partition
        replica = self._table.by_key.get(partition)
        if replica is None:
            mark = self._logs.high_watermark(partition)
            replica = Replica(partition, order.topic_id, local, mark)
            replica.update_config(self._log_config_of(partition.topic))
            self._table.add(replica)
        elif replica.topic_id == ZERO_TOPIC_ID:
            self._table.assign_topic_id(replica, order.topic_id)
