"""Reads the groups of a partition from its log, without blocking the event loop (edge).

One task loads one partition after the other: a read in a thread, then a slice of its records per
turn of the event loop. A partition that cannot be read stays loading, as offsets from half of its
log would send consumers back. It is retried after `RETRY_DELAY_S`, while others are loaded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

import structlog

from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.groups.replay import OffsetsReplay
from broker.groups.store import Replicas
from kafkawire.errors import ApiError, CorruptBatchError
from kafkawire.group_records import OFFSETS_TOPIC
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import iterate_batches
from storage.errors import StorageError
from storage.log.log import Log

SLICE_BYTES: Final = 64 * 1024
"""Bytes that are replayed in one turn of the event loop: a few milliseconds of work."""

RETRY_DELAY_S: Final = 60.0
"""Time before a failed load is retried: disk errors and lack of descriptors may be temporary.

A damaged log stays damaged, and its error is logged again each time.
"""

log = structlog.get_logger(__name__)


class GroupLoader:
    """Loads partitions in the order of `put`."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        buffer_bytes: int,
        limits: GroupLimits,
        is_wanted: Callable[[int, LeaderEpoch], bool],
        on_loaded: Callable[[int, list[Group]], None],
    ) -> None:
        """Load while `is_wanted` holds for the partition and the epoch in which its load began.

        `on_loaded` gets a partition's groups; each read takes up to `buffer_bytes`.
        """
        self._replicas = replicas
        self._loop = loop
        self._executor = executor
        self._buffer_bytes = buffer_bytes
        self._limits = limits
        self._is_wanted = is_wanted
        self._on_loaded = on_loaded
        self._queue: deque[tuple[int, LeaderEpoch]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        """Load a partition; one without records is loaded when this returns."""
        try:
            each = self._log(partition)
        except ApiError as error:
            self._on_failure(partition, leader_epoch, error)
            return
        if each.log_start_offset == each.log_end_offset:
            self._on_loaded(partition, [])
            return
        self._queue.append((partition, leader_epoch))
        if self._task is None:
            self._task = self._loop.create_task(self._run(), name="group loader")

    async def stop(self) -> None:
        """Stop loading."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._load(*self._queue.popleft())
        finally:
            self._task = None

    async def _load(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        try:
            await self._load_all(partition, leader_epoch)
        except (ApiError, StorageError, CorruptBatchError, OSError) as error:
            self._on_failure(partition, leader_epoch, error)
        except Exception as error:
            # A bug, or an unforeseen record: it delays its own partition, and must not delay the
            # other ones.
            log.exception("groups.load_failed", partition=partition)
            self._on_failure(partition, leader_epoch, error)

    async def _load_all(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        began_s, replay = self._loop.time(), OffsetsReplay()
        await self._replay(partition, leader_epoch, replay)
        if not self._is_wanted(partition, leader_epoch):
            return
        groups = replay.groups(self._limits, round(self._loop.time() * 1000))
        log.info(
            "groups.loaded",
            partition=partition,
            group_count=len(groups),
            record_count=replay.record_count,
            unknown_count=replay.unknown_count,
            duration_ms=round((self._loop.time() - began_s) * 1000),
        )
        self._on_loaded(partition, groups)

    async def _replay(
        self, partition: int, leader_epoch: LeaderEpoch, replay: OffsetsReplay
    ) -> None:
        """Replay the whole log: nothing is appended while the partition loads."""
        each = self._log(partition)
        offset, end_offset = each.log_start_offset, each.log_end_offset
        while offset < end_offset and self._is_wanted(partition, leader_epoch):
            region = each.read(
                offset, self._buffer_bytes, end_offset=end_offset, min_one_batch=True
            )
            data = memoryview(await self._loop.run_in_executor(self._executor, region.read))
            if not data:
                # Compaction has removed the rest.
                return
            sliced_bytes, begin = 0, offset
            for header, batch in iterate_batches(data):
                replay.add(batch, header)
                offset = Offset(header.next_offset)
                sliced_bytes += header.size_bytes
                if sliced_bytes >= SLICE_BYTES:
                    sliced_bytes = 0
                    await asyncio.sleep(0)
            if offset == begin:
                raise CorruptBatchError(f"the batch at offset {offset} is truncated")

    def _on_failure(self, partition: int, leader_epoch: LeaderEpoch, error: Exception) -> None:
        if self._is_wanted(partition, leader_epoch):
            log.error("groups.not_loaded", partition=partition, error=str(error))
            self._loop.call_later(RETRY_DELAY_S, self._retry, partition, leader_epoch)

    def _retry(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        if self._is_wanted(partition, leader_epoch):
            self.put(partition, leader_epoch)

    def _log(self, partition: int) -> Log:
        return self._replicas.leader((OFFSETS_TOPIC, partition)).log
