"""The log cleaner: selects logs, runs child processes, swaps in cleaned segments (edge).

`log.cleaner.threads` tasks run side by side. Each selects the dirtiest log, has a child process
clean it, and sleeps for `log.cleaner.backoff.ms` if there is none. The event loop's own steps are
short: the check of one log at a time, and some renames per new segment. Threads wait for the disk.
Source: kafka.log.LogCleaner of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import structlog

from broker.config.log_keys import LogKeys
from broker.logs.cleaner_metrics import CleanerMetrics
from storage.compaction.cleanable import Candidate, filthiest
from storage.compaction.job import (
    CleaningDone,
    CleaningFailed,
    CleaningJob,
    GroupCleaned,
    Report,
)
from storage.compaction.job_maker import CleanerSettings
from storage.compaction.manager import CleanerManager, Cleaning
from storage.directory.logs import Logs
from storage.disk.space_reserve import LEAST_FREE_BYTES
from storage.errors import CorruptLogError, StorageError
from storage.segment.cleaned_segment import remove_all_cleaned

RECONFIGURABLE: Final = (
    "log_cleaner_threads",
    "log_cleaner_dedupe_buffer_size",
    "log_cleaner_io_buffer_load_factor",
    "log_cleaner_io_buffer_size",
    "log_cleaner_io_max_bytes_per_second",
    "log_cleaner_backoff_ms",
)
"""Keys that `LogCleaner.reconfigure` applies: all but `log.cleaner.enable`, as in Kafka."""
MAP_LIMIT_BYTES: Final = 2**31 - 1
"""Largest key map of one cleaner, as in Kafka."""

log = structlog.get_logger(__name__)


class Process(Protocol):
    """A running cleaner; the implementation is `broker.logs.cleaner_process`."""

    def reports(self) -> AsyncIterator[Report]:
        """Yield the process's reports until it ends."""

    def kill(self) -> None:
        """Kill the process, if it has not ended."""

    async def wait(self) -> None:
        """Wait until the process has ended."""


def cleaner_settings(config: LogKeys) -> CleanerSettings:
    """Return one cleaner's share of the configured resources."""
    count = max(1, config.log_cleaner_threads)
    return CleanerSettings(
        dedupe_buffer_bytes=min(config.log_cleaner_dedupe_buffer_size // count, MAP_LIMIT_BYTES),
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size // count // 2,
        max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second / count,
        # Appends need this much, and the reserve is not for a cleaning that runs when it is freed.
        least_free_bytes=max(config.log_dir_reserve_bytes, LEAST_FREE_BYTES),
    )


class LogCleaner:
    """Compacts `logs`. `start` and `stop` it once each."""

    def __init__(
        self,
        *,
        logs: Logs,
        manager: CleanerManager,
        config: LogKeys,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        start_process: Callable[[CleaningJob], Awaitable[Process]],
        delete_expired: Callable[[], Awaitable[None]],
    ) -> None:
        """Apply retention to compacted logs with `delete_expired`, a task of the cleaner."""
        self.metrics = CleanerMetrics(loop.time)
        self._logs = logs
        self._manager = manager
        self._config = config
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._start_process = start_process
        self._delete_expired = delete_expired
        self._tasks: list[asyncio.Task[None]] = []
        self._is_running = False

    def start(self) -> None:
        """Start cleaning, if `log.cleaner.enable` is set."""
        if not self._config.log_cleaner_enable:
            return
        self._logs.cleaning = self._manager
        self._is_running = True
        self._start_tasks()

    async def stop(self) -> None:
        """Stop all cleaners, and discard their unfinished work."""
        self._is_running = False
        await self._end_tasks()

    async def reconfigure(self, config: LogKeys) -> None:
        """Clean with the settings in `config` from now on.

        Running cleanings start over, as in Kafka. The caller has checked the values, and how far
        they may differ from those before.
        """
        before, self._config = self._config, config
        if all(getattr(before, name) == getattr(config, name) for name in RECONFIGURABLE):
            return
        self._manager.reconfigure(cleaner_settings(config))
        if self._is_running:
            await self._end_tasks()
        # The cleaner may have been stopped, or started with a newer configuration, meanwhile.
        if self._is_running and not self._tasks:
            self._start_tasks()
        log.info("cleaner.reconfigured", **{name: getattr(config, name) for name in RECONFIGURABLE})

    def _start_tasks(self) -> None:
        for number in range(self._config.log_cleaner_threads):
            name = f"kafka-log-cleaner-thread-{number}"
            task = self._loop.create_task(self._run(number), name=name)
            task.add_done_callback(self._on_ended)
            self._tasks.append(task)

    async def _end_tasks(self) -> None:
        ending, self._tasks = self._tasks, []
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """Report a cleaner that has ended by itself, which is a bug."""
        if not task.cancelled():
            self.metrics.dead_thread_count += 1
            log.error("cleaner.died", task=task.get_name(), error=repr(task.exception()))

    async def _run(self, number: int) -> None:
        while True:
            cleaning = await self._select()
            if cleaning is not None:
                await self._clean(number, cleaning)
            # After cleaning: a log that has shrunk may not have to lose its old records.
            await self._delete_expired()
            if cleaning is None:
                await asyncio.sleep(self._config.log_cleaner_backoff_ms / 1000)

    async def _select(self) -> Cleaning | None:
        """Start a cleaning of the dirtiest log; return None if no log needs it, or all must wait.

        A rate of 0 pauses all cleanings until `reconfigure`. A process would only hold its memory.
        """
        self.metrics.on_run()
        now_ms = self._now_ms()
        candidates: list[Candidate] = []
        for local in self._logs:
            try:
                candidate = self._manager.candidate(local, now_ms)
            except CorruptLogError as error:
                self._manager.mark_uncleanable(local, str(error))
                continue
            except StorageError as error:
                partition = str(local.topic_partition)
                log.warning("cleaning.failed", partition=partition, error=str(error))
                continue
            if candidate is not None:
                candidates.append(candidate)
            await asyncio.sleep(0)
        ratios = [each.dirty_ratio for each in candidates]
        self.metrics.max_dirty_percent = int(100 * max(ratios, default=0))
        delays_ms = [each.delay_ms for each in candidates]
        self.metrics.max_compaction_delay_secs = max(delays_ms, default=0) // 1000
        chosen = filthiest(candidates)
        is_paused = self._config.log_cleaner_io_max_bytes_per_second <= 0
        return None if chosen is None or is_paused else self._manager.start(chosen, now_ms)

    async def _clean(self, number: int, cleaning: Cleaning) -> None:
        end: CleaningDone | CleaningFailed
        end = CleaningFailed(error="the cleaner was stopped", is_damage=False)
        try:
            end = await self._attempt(cleaning)
        finally:
            is_current = self._manager.finish(cleaning, end)
        if isinstance(end, CleaningDone) and is_current:
            await self._write_end(cleaning)
            self.metrics.on_round(number, end.stats)
            _log_round(cleaning, end)
        elif isinstance(end, CleaningFailed) and not cleaning.is_aborted:
            self.metrics.failure_count += 1
            if not cleaning.has_lost_segments:
                self._manager.note_failure(cleaning.partition, self._now_ms())
            # Back off, so that a lasting failure does not cause a busy loop.
            await asyncio.sleep(self._config.log_cleaner_backoff_ms / 1000)

    async def _attempt(self, cleaning: Cleaning) -> CleaningDone | CleaningFailed:
        """Run a cleaning in a child process, which has ended when this returns or raises."""
        try:
            await self._remove_unfinished(cleaning)
            process = await self._start_process(cleaning.job)
        except (StorageError, OSError) as error:
            return CleaningFailed(error=str(error), is_damage=False)
        cleaning.on_abort = process.kill
        if cleaning.is_aborted:
            process.kill()
        try:
            end = await self._follow(process, cleaning)
        except (StorageError, OSError, ValueError) as error:
            end = CleaningFailed(error=str(error), is_damage=isinstance(error, CorruptLogError))
        finally:
            # Also when this task is cancelled: the next cleaning writes files of the same names.
            process.kill()
            await process.wait()
        if isinstance(end, CleaningFailed):
            # If this fails, the next cleaning or start repeats it.
            with suppress(StorageError):
                await self._remove_unfinished(cleaning)
        return end

    async def _remove_unfinished(self, cleaning: Cleaning) -> None:
        """Remove the files of an interrupted cleaning; a disk that fails takes its dir offline."""

        def remove() -> None:
            with cleaning.log.upkeep.io():
                remove_all_cleaned(Path(cleaning.job.directory))

        await self._in_thread(remove)

    async def _follow(self, process: Process, cleaning: Cleaning) -> CleaningDone | CleaningFailed:
        """Swap in the cleaned segments of a process, and return its result."""
        async for report in process.reports():
            if cleaning.is_aborted:
                break
            if not isinstance(report, GroupCleaned):
                return report
            if not await self._swap_in(cleaning, report):
                return CleaningFailed(
                    error="the log has changed during the cleaning", is_damage=False
                )
        return CleaningFailed(error="the cleaner process ended without a result", is_damage=False)

    async def _swap_in(self, cleaning: Cleaning, group: GroupCleaned) -> bool:
        """Put a cleaned segment in place; return False if the log has changed meanwhile."""
        local = cleaning.log
        if not local.upkeep.begin_swap(group.replaced, group.size_bytes):
            return False
        # In a thread, as the disk may be slow; a truncation of the log cancels the swap.
        try:
            await self._in_thread(local.upkeep.sync_names)
            if cleaning.is_aborted:
                local.upkeep.cancel_swap()
                return False
            return local.upkeep.finish_swap(self._now_ms())
        except (asyncio.CancelledError, StorageError):
            # On a disk that has failed meanwhile, too: another error would undo the cancellation.
            with suppress(StorageError):
                local.upkeep.cancel_swap()
            raise

    async def _write_end(self, cleaning: Cleaning) -> None:
        """Make the renames durable, then write the checkpoint of the cleaned offset."""

        def write() -> None:
            cleaning.log.upkeep.sync_names()
            self._logs.checkpoints.write_cleaner_offsets()

        try:
            await self._in_thread(write)
        except StorageError as error:
            log.warning("cleaning.failed", partition=str(cleaning.partition), error=str(error))

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await self._loop.run_in_executor(self._executor, work)


def _log_round(cleaning: Cleaning, end: CleaningDone) -> None:
    stats = end.stats
    seconds = max(stats.seconds, 1e-3)
    log.info(
        "cleaning.finished",
        partition=str(cleaning.partition),
        end_offset=end.end_offset,
        bytes_read=stats.bytes_read,
        bytes_written=stats.bytes_written,
        records_read=stats.records_read,
        records_written=stats.records_written,
        records_without_key=stats.records_without_key,
        duration_ms=round(stats.seconds * 1000),
        map_duration_ms=round(stats.map_seconds * 1000),
        records_per_second=round(stats.records_read / seconds),
        bytes_per_second=round(stats.bytes_read / seconds),
    )
