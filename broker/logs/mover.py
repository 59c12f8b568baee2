"""Moves logs between the log dirs of this broker (edge).

A move copies in a thread, chunk by chunk, while the log stays in use. When little is left, the rest
is copied and the copy takes over within one turn of the event loop, so no append or read comes in
between. Invariant: at most one chunk of a partition is being copied, and meanwhile the event loop
does not touch the copy. A broker resumes its moves at the next start. All moves together respect a
rate limit (`move_rate`). Source: KIP-113.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from math import inf
from typing import Final

import structlog

from broker.logs.move_rate import MoveRate
from kafkawire.errors import CorruptBatchError
from kafkawire.ids import TopicPartition
from storage.directory.logs import LogDirectory, Logs
from storage.errors import (
    LogDirFullError,
    OutOfFilesError,
    StorageError,
    TruncatedRegionError,
    UnexpectedOffsetError,
)
from storage.log.log import Log
from storage.log.log_copying import CHUNK_BYTES, append_chunk, missing_chunk

LITTLE_BYTES: Final = CHUNK_BYTES // 4
"""Limit for a copy in the event loop, which takes less than a millisecond."""
UNSYNCED_BYTES: Final = 4 * CHUNK_BYTES
"""Limit for the bytes of a copy that the event loop syncs at the end of a move.

They are more than `LITTLE_BYTES`: otherwise a log that grows by that much during each sync would
never arrive.
"""
RETRY_DELAY_S: Final = 1.0
"""Pause when space or descriptors are lacking, or the log ends with a hole."""
LONGEST_WAIT_S: Final = 1.0
"""Interval at which a paused move checks whether it is still wanted, and the rate."""

log = structlog.get_logger(__name__)


class LogMover:
    """The moves in progress. `stop` it before the logs are closed."""

    def __init__(
        self,
        logs: Logs,
        *,
        on_moved: Callable[[Log], None],
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        max_moves: int,
    ) -> None:
        """Call `on_moved` with each log that has replaced another, in the same turn."""
        self._logs = logs
        self._on_moved = on_moved
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._places = asyncio.Semaphore(max_moves)
        self._rate = MoveRate()
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}
        # Bytes of each copy since its last sync; infinite at first, because of earlier runs.
        self._unsynced_bytes: dict[TopicPartition, float] = {}
        self._stopped = asyncio.Event()

    def resume(self) -> None:
        """Resume the moves that an earlier run of this broker left unfinished."""
        for copy in self._logs.futures:
            self._begin(copy.topic_partition)

    def move(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Move a log to `directory`, if it is not there already. The last call wins.

        Raises:
            StorageError: the move cannot begin.
        """
        if self._logs.begin_move(partition, directory, self._now_ms()):
            self._begin(partition)

    def limit_rate(self, max_bytes_per_second: float) -> None:
        """Limit the rate of all moves together from now on; 0 pauses them.

        There is no limit before the first call. A log that is written faster than the rate never
        arrives.
        """
        self._rate.limit(max_bytes_per_second, self._loop.time())
        log.info("moves.limited", max_bytes_per_second=max_bytes_per_second)

    async def stop(self) -> None:
        """Start no more chunks, and wait for the running ones."""
        self._stopped.set()
        if self._moves:
            await asyncio.wait(self._moves.values())

    def _begin(self, partition: TopicPartition) -> None:
        before = self._moves.get(partition)
        task = self._loop.create_task(self._run(partition, before), name=f"move {partition}")
        self._moves[partition] = task
        task.add_done_callback(partial(self._on_done, partition))

    def _on_done(self, partition: TopicPartition, task: asyncio.Task[None]) -> None:
        if self._moves.get(partition) is task:
            del self._moves[partition]
            self._unsynced_bytes.pop(partition, None)

    async def _run(self, partition: TopicPartition, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            # The task of a cancelled move, which ends after its chunk.
            await asyncio.wait([before])
        self._unsynced_bytes[partition] = inf
        copy = self._logs.futures.get(partition)
        async with self._places:
            try:
                while copy is not None and not await self._step(partition, copy):
                    pass
            except (StorageError, CorruptBatchError, OSError) as error:
                log.error("move.failed", partition=str(partition), error=str(error))
                original = self._logs.get(partition)
                # If the original is lost, the copy has the only records that are left.
                is_useless = original is not None and original.health.failure is None
                if is_useless and self._logs.futures.get(partition) is copy:
                    self._logs.futures.drop(partition)

    async def _step(self, partition: TopicPartition, copy: Log) -> bool:
        """Copy a chunk, or end the move; return whether the move is done."""
        await self._wait_for_rate(partition, copy)
        original = self._logs.get(partition)
        if original is None or not self._is_wanted(partition, copy):
            return True
        end_offset = original.log_end_offset
        try:
            self._logs.placement.align_copy(partition)
            chunk = missing_chunk(copy, original)
            self._rate.on_bytes(chunk.size_bytes, self._loop.time())
            # Small segments have a small chunk each, which is not all that is left.
            is_last = copy.log_end_offset >= original.segments[-1].base_offset
            if chunk.size_bytes > (LITTLE_BYTES if is_last else 0):
                await self._in_thread(append_chunk, copy, chunk, self._now_ms())
                self._unsynced_bytes[partition] += chunk.size_bytes
                return False
            if not chunk.size_bytes and copy.log_end_offset < original.log_end_offset:
                # The write of the batch behind the hole has failed; the follower repeats it.
                await self._pause(RETRY_DELAY_S)
                return False
            if self._unsynced_bytes[partition] > UNSYNCED_BYTES:
                # First, so that little is left to be synced in the event loop.
                await self._in_thread(copy.upkeep.flush)
                self._unsynced_bytes[partition] = 0.0
            return self._has_ended(partition, copy)
        except TruncatedRegionError:
            # Not in this turn, in which nothing else can happen to the logs.
            await asyncio.sleep(0)
            return False
        except (CorruptBatchError, UnexpectedOffsetError):
            if original.lowest_end_offset >= end_offset:
                raise
            # The log was truncated and written again while the chunk was being read.
            await asyncio.sleep(0)
            return False
        except (LogDirFullError, OutOfFilesError):
            if copy.is_closed:
                # It could not take over, and was dropped.
                raise
            await self._pause(RETRY_DELAY_S)
            return False

    async def _wait_for_rate(self, partition: TopicPartition, copy: Log) -> None:
        """Wait until more may be copied, or the move is no longer wanted."""
        while (wait_s := self._rate.wait_s(self._loop.time())) > 0:
            if not self._is_wanted(partition, copy):
                return
            await self._pause(min(wait_s, LONGEST_WAIT_S))

    def _is_wanted(self, partition: TopicPartition, copy: Log) -> bool:
        return not self._stopped.is_set() and self._logs.futures.get(partition) is copy

    def _has_ended(self, partition: TopicPartition, copy: Log) -> bool:
        """Copy the rest and replace the original, unless the rest has grown too large meanwhile."""
        original = self._logs.get(partition)
        if original is None or self._logs.futures.get(partition) is not copy:
            return True
        self._logs.placement.align_copy(partition)
        left_bytes = LITTLE_BYTES
        while copy.log_end_offset < original.log_end_offset:
            chunk = missing_chunk(copy, original)
            if not 0 < chunk.size_bytes <= left_bytes:
                return False
            append_chunk(copy, chunk, self._now_ms())
            left_bytes -= chunk.size_bytes
            self._unsynced_bytes[partition] += chunk.size_bytes
        self._on_moved(self._logs.end_move(partition, self._now_ms()))
        return True

    async def _in_thread(self, call: Callable[..., None], *arguments: object) -> None:
        await self._loop.run_in_executor(self._executor, call, *arguments)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return
