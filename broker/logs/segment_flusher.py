"""Brings segments to disk soon after they are closed (edge).

When a log rolls, a thread syncs its closed segments, as Kafka's task `flush-log` does. After a loss
of power, a log therefore lacks none of its older segments, and recovery reads little. One thread at
a time works on a log dir, because syncs of one disk wait for each other anyway; logs that roll in
the meantime come next. A failed sync is repeated by the checkpoint of the recovery points, unless
it has taken the log dir offline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

import structlog

from kafkawire.ids import TopicPartition
from storage.directory.log_table import LogTable
from storage.errors import StorageError
from storage.log.log import Log

log = structlog.get_logger(__name__)


class SegmentFlusher:
    """Syncs closed segments of the logs in `table`, in the threads of `executor`."""

    def __init__(
        self, table: LogTable, loop: asyncio.AbstractEventLoop, executor: Executor
    ) -> None:
        self._table = table
        self._loop = loop
        self._executor = executor
        self._waiting: dict[Path, dict[TopicPartition, Log]] = {}
        self._running: dict[Path, asyncio.Task[None]] = {}

    def flush_soon(self, partition: TopicPartition) -> None:
        """Sync the closed segments of a log that is rolling; called in the loop's thread."""
        path = self._table.homes[partition].path
        self._waiting.setdefault(path, {})[partition] = self._table.logs[partition]
        if path not in self._running:
            self._running[path] = self._loop.create_task(self._run(path), name=f"flush-log-{path}")

    async def stop(self) -> None:
        """Start no further sync, and wait for the running ones."""
        self._waiting.clear()
        if self._running:
            await asyncio.wait(self._running.values())

    async def _run(self, path: Path) -> None:
        try:
            while waiting := self._waiting.pop(path, None):
                await self._loop.run_in_executor(self._executor, _flush, waiting.values())
        finally:
            del self._running[path]


def _flush(logs: Iterable[Log]) -> None:
    for each in logs:
        try:
            each.upkeep.flush_closed()
        except StorageError as error:
            log.warning("flush.failed", partition=str(each.topic_partition), error=str(error))
