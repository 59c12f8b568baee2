"""The logs of a broker and the parts that work on them (composition)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import structlog

from broker.config.log_keys import LogKeys
from broker.logs.cleaner_process import CleanerProcess
from broker.logs.log_cleaner import LogCleaner, cleaner_settings
from broker.logs.mover import LogMover
from broker.logs.retention_run import delete_expired_logs
from broker.logs.segment_flusher import SegmentFlusher
from broker.replication.replica_manager import ReplicaManager
from broker.status.gauges import Metrics, add_log_gauges
from kafkawire.ids import Offset, TopicPartition
from storage.compaction.manager import CleanerManager
from storage.config.log_config import LogConfig
from storage.directory.boot_id import current_boot_id
from storage.directory.directory_lock import lock_usable
from storage.directory.logs import Logs
from storage.errors import StorageError

log = structlog.get_logger(__name__)


class BrokerLogs:
    """Opens the logs, and makes their mover and their cleaner; `running` closes all of them."""

    def __init__(
        self,
        config: LogKeys,
        metrics: Metrics,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        running: AsyncExitStack,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._loop = loop
        self._executor = executor
        self._running = running
        self._now_ms = now_ms
        self._logs: Logs
        self._replicas: ReplicaManager | None = None

    def lock(self) -> list[Path]:
        """Lock the log dirs until the stop; return the usable ones.

        This is the first step of a start: only the holder of the locks may touch the remains of an
        earlier process, above all its session.

        Raises:
            StorageError: no log dir can be used, or another broker uses one.
        """
        locks = lock_usable(map(Path, self._config.log_directories))
        for each in locks.values():
            self._running.callback(each.release)
        return list(locks)

    async def open(
        self,
        locked: Collection[Path],
        *,
        config_of: Callable[[str], LogConfig],
        on_offline: Callable[[Path], None],
        recovery_threads: int,
    ) -> Logs:
        """Open all logs in a thread, because recovery after a crash can take long."""

        def open_logs() -> Logs:
            return Logs.open(
                [Path(text) for text in self._config.log_directories],
                config_of=config_of,
                now_ms=self._now_ms(),
                on_offline=on_offline,
                recovery_threads=recovery_threads,
                reserve_bytes=self._config.log_dir_reserve_bytes,
                locked=locked,
                boot_id=current_boot_id(),
            )

        opening = self._loop.run_in_executor(self._executor, open_logs)
        try:
            logs = self._logs = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped. After an orderly end its recovery is not lost.
            self._logs = await opening
            await self._close()
            raise
        self._running.push_async_callback(self._close)
        flusher = SegmentFlusher(logs.table, self._loop, self._executor)
        logs.table.on_rolled = flusher.flush_soon
        self._running.push_async_callback(flusher.stop)
        add_log_gauges(self._metrics, logs)
        return logs

    async def accept(self, left: Collection[TopicPartition]) -> None:
        """Cut the doubtful logs of `left` at their gaps, and take all logs as they are.

        Both happen in a thread; a cancellation takes effect when it is idle.

        Raises:
            StorageError: a gap is left; the logs are still doubtful.
        """
        await self._finish(partial(self._logs.cut_at_gaps, left))
        await self._finish(self._logs.accept)

    async def _finish(self, work: Callable[[], None]) -> None:
        running = self._loop.run_in_executor(self._executor, work)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and the logs must not be closed meanwhile.
            with suppress(StorageError):
                await running
            raise

    def attach(self, replicas: ReplicaManager) -> None:
        """Write the high watermarks of `replicas` when the logs close."""
        self._replicas = replicas

    def make_mover(self, replicas: ReplicaManager) -> LogMover:
        """Return the mover of `replicas` between log dirs; `resume` and `stop` it."""
        threads = self._config.num_replica_alter_log_dirs_threads
        return LogMover(
            self._logs,
            on_moved=replicas.replace_log,
            loop=self._loop,
            executor=self._executor,
            now_ms=self._now_ms,
            max_moves=max(1, len(self._logs.table.directories) if threads is None else threads),
        )

    def start_cleaner(self, config: LogKeys, replicas: ReplicaManager) -> LogCleaner:
        """Clean the partitions of `replicas` until the stop."""
        logs, now_ms = self._logs, self._now_ms

        def first_undecided_offset(partition: TopicPartition) -> Offset | None:
            high_watermark, local = replicas.high_watermark(partition), logs.get(partition)
            if high_watermark is None or local is None:
                return None
            return local.last_stable_offset(high_watermark)

        manager = CleanerManager(logs, cleaner_settings(config), first_undecided_offset)
        cleaner = LogCleaner(
            logs=logs,
            manager=manager,
            config=config,
            loop=self._loop,
            executor=self._executor,
            now_ms=now_ms,
            start_process=CleanerProcess.start,
            delete_expired=lambda: delete_expired_logs(
                logs, replicas.high_watermark, now_ms, of_compacted=True
            ),
        )
        for name, read in cleaner.metrics.gauges().items():
            self._metrics.add_gauge(name, read)
        self._metrics.add_gauge("uncleanable_partitions_count", lambda: len(manager.uncleanable))
        cleaner.start()
        self._running.push_async_callback(cleaner.stop)
        return cleaner

    async def _close(self) -> None:
        def close() -> None:
            try:
                if self._replicas is not None:
                    high_watermarks = self._replicas.high_watermarks()
                    self._logs.checkpoints.write_high_watermarks(high_watermarks)
            except StorageError as error:
                # Affects one log dir; leaders and followers establish the marks again.
                log.error("high_watermarks.not_written", error=str(error))
            finally:
                self._logs.close()

        await self._loop.run_in_executor(self._executor, close)
