"""The log cleaner and its dependencies (composition)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from broker.config.log_keys import LogKeys
from broker.logs.cleaner import LogCleaner, cleaner_settings
from broker.logs.cleaner_process import CleanerProcess
from broker.logs.retention import delete_expired_logs
from broker.replication.replica_manager import ReplicaManager
from broker.status.gauges import Metrics
from kafkawire.ids import Offset, TopicPartition
from storage.compaction.manager import CleanerManager
from storage.directory.logs import Logs


def make_cleaner(
    *,
    config: LogKeys,
    logs: Logs,
    replicas: ReplicaManager,
    metrics: Metrics,
    loop: asyncio.AbstractEventLoop,
    executor: Executor,
    now_ms: Callable[[], int],
) -> LogCleaner:
    """Return the cleaner of the partitions that `replicas` serves; `start` it."""

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
        loop=loop,
        executor=executor,
        now_ms=now_ms,
        start_process=CleanerProcess.start,
        delete_expired=lambda: delete_expired_logs(
            logs, replicas.high_watermark, now_ms, of_compacted=True
        ),
    )
    for name, read in cleaner.metrics.gauges().items():
        metrics.add_gauge(name, read)
    metrics.add_gauge("uncleanable_partitions_count", lambda: len(manager.uncleanable))
    return cleaner
