"""Replays a partition of an internal topic, without blocking the event loop (edge).

One task loads one partition after the other: a read in a thread, then a slice of its records per
turn of the event loop. A partition that cannot be read stays loading, as the state from half of
its log is wrong: offsets would send consumers back. It is retried after `RETRY_DELAY_S`, while
others are loaded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Generic, Protocol, TypeVar

import structlog

from broker.internal_log.store import Replicas
from kafkawire.errors import ApiError, CorruptBatchError
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import BatchHeader, iterate_batches
from storage.errors import StorageError
from storage.log.log import Log

SLICE_BYTES: Final = 64 * 1024
"""Bytes that are replayed in one turn of the event loop: a few milliseconds of work."""

RETRY_DELAY_S: Final = 60.0
"""Time before a failed load is retried: disk errors and lack of descriptors may be temporary.

A damaged log stays damaged, and its error is logged again each time.
"""

log = structlog.get_logger(__name__)


class Replay(Protocol):
    """State of one partition, rebuilt from its batches."""

    record_count: int
    unknown_count: int

    def add(self, batch: memoryview, header: BatchHeader) -> None:
        """Add the next batch of the log.

        Raises:
            CorruptBatchError: the batch is damaged; none of it was added.
        """


R = TypeVar("R", bound=Replay)


class Loader(Generic[R]):
    """Loads partitions in the order of `put`."""

    def __init__(
        self,
        replicas: Replicas,
        topic: str,
        *,
        subject: str,
        make_replay: Callable[[], R],
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        buffer_bytes: int,
        is_wanted: Callable[[int, LeaderEpoch], bool],
        on_loaded: Callable[[int, R], int],
    ) -> None:
        """Load while `is_wanted` holds for the partition and the epoch in which its load began.

        `on_loaded` gets a partition's replay, and returns the number of its `subject`s, which is a
        noun for log events. Each read takes up to `buffer_bytes`.
        """
        self._replicas = replicas
        self._topic = topic
        self._subject = subject
        self._make_replay = make_replay
        self._loop = loop
        self._executor = executor
        self._buffer_bytes = buffer_bytes
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
            self._on_loaded(partition, self._make_replay())
            return
        self._queue.append((partition, leader_epoch))
        if self._task is None:
            self._task = self._loop.create_task(self._run(), name=f"{self._subject} loader")

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
            log.exception(f"{self._subject}s.load_failed", partition=partition)
            self._on_failure(partition, leader_epoch, error)

    async def _load_all(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        began_s, replay = self._loop.time(), self._make_replay()
        await self._replay(partition, leader_epoch, replay)
        if not self._is_wanted(partition, leader_epoch):
            return
        count = self._on_loaded(partition, replay)
        log.info(
            f"{self._subject}s.loaded",
            partition=partition,
            **{f"{self._subject}_count": count},
            record_count=replay.record_count,
            unknown_count=replay.unknown_count,
            duration_ms=round((self._loop.time() - began_s) * 1000),
        )

    async def _replay(self, partition: int, leader_epoch: LeaderEpoch, replay: R) -> None:
        """Replay the whole log: nothing is appended while the partition loads."""
        each = self._log(partition)
        offset, end_offset = each.log_start_offset, each.log_end_offset
        while offset < end_offset and self._is_wanted(partition, leader_epoch):
            # Looked up again: its copy in another log dir may have replaced the log meanwhile.
            region = self._log(partition).read(
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
            log.error(f"{self._subject}s.not_loaded", partition=partition, error=str(error))
            self._loop.call_later(RETRY_DELAY_S, self._retry, partition, leader_epoch)

    def _retry(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        if self._is_wanted(partition, leader_epoch):
            self.put(partition, leader_epoch)

    def _log(self, partition: int) -> Log:
        return self._replicas.leader((self._topic, partition)).log
