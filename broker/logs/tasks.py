"""The periodic tasks for logs, with Kafka's names, keys and delays (composition).

By default only closed segments (`segment_flusher`) and checkpoints are fsynced: replication and the
operating system's write-back make records durable. `log.flush.scheduler.interval.ms` enables the
flusher, which then applies `flush.ms`; each append applies `flush.messages`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.config.dynamic_config import DynamicConfig
from broker.logs.retention_run import delete_expired_logs
from broker.network.request_tasks import in_turns
from broker.replication.replica_manager import ReplicaManager
from broker.scheduler import PeriodicTask
from storage.directory.logs import Logs

MIN_DELETE_INTERVAL_MS: Final = 100
"""Each run visits all logs, also if files may be removed without a delay."""
MAX_DELETE_INTERVAL_MS: Final = 1_000
SPACE_CHECK_INTERVAL_MS: Final = 1_000


def log_tasks(
    dynamic: DynamicConfig,
    logs: Logs,
    replicas: ReplicaManager,
    *,
    now_ms: Callable[[], int],
    clock_ms: Callable[[], int],
) -> list[PeriodicTask]:
    """Return the periodic tasks for `logs`; `clock_ms` is a monotonic clock."""
    config = dynamic.static
    delay_ms = config.logs.log_initial_task_delay_ms
    file_delete_delay_ms = config.topic_defaults.file_delete_delay_ms

    high_watermark_period_ms = config.replication.replica_high_watermark_checkpoint_interval_ms

    async def expire_producers() -> None:
        expiration_ms = dynamic.current.groups.producer_id_expiration_ms
        async for log in in_turns(logs, lambda log: len(log.producers)):
            log.producers.expire(now_ms(), expiration_ms)
        async for replica in in_turns(replicas):
            replica.expire_guards(clock_ms(), expiration_ms)

    return [
        PeriodicTask(
            "PeriodicProducerExpirationCheck",
            expire_producers,
            period_ms=config.groups.producer_id_expiration_check_interval_ms,
            # Only the thread that appends to a log may change its producers.
            runs_in_loop=True,
        ),
        PeriodicTask(
            "kafka-log-retention",
            lambda: delete_expired_logs(logs, replicas.high_watermark, now_ms),
            delay_ms=delay_ms,
            period_ms=config.logs.log_retention_check_interval_ms,
            # Only the thread that appends to a log may roll it and remove segments.
            runs_in_loop=True,
        ),
        PeriodicTask(
            "highwatermark-checkpoint",
            lambda: logs.checkpoints.write_high_watermarks(replicas.high_watermarks()),
            delay_ms=high_watermark_period_ms,
            period_ms=high_watermark_period_ms,
        ),
        PeriodicTask(
            "kafka-log-flusher",
            lambda: logs.flush_due(clock_ms()),
            delay_ms=delay_ms,
            period_ms=config.logs.log_flush_scheduler_interval_ms,
        ),
        PeriodicTask(
            "kafka-recovery-point-checkpoint",
            logs.checkpoints.write_recovery_points,
            delay_ms=delay_ms,
            period_ms=config.logs.log_flush_offset_checkpoint_interval_ms,
        ),
        PeriodicTask(
            "kafka-log-start-offset-checkpoint",
            logs.checkpoints.write_log_starts,
            delay_ms=delay_ms,
            period_ms=config.logs.log_flush_start_offset_checkpoint_interval_ms,
        ),
        PeriodicTask("log-dir-space", logs.check_space, period_ms=SPACE_CHECK_INTERVAL_MS),
        PeriodicTask(
            "kafka-delete-logs",
            lambda: logs.remove_deleted(clock_ms(), file_delete_delay_ms),
            delay_ms=min(delay_ms, file_delete_delay_ms),
            period_ms=max(
                MIN_DELETE_INTERVAL_MS, min(file_delete_delay_ms, MAX_DELETE_INTERVAL_MS)
            ),
        ),
    ]
