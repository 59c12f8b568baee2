"""Clocks of the periodic tasks for logs."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import DynamicConfig
from broker.logs.tasks import log_tasks
from broker.network.request_tasks import ITEMS_PER_TURN
from broker.replication.replica_manager import ReplicaManager
from kafkawire.ids import TopicPartition
from storage.producers.producer_state import ProducerState
from tests.unit.storage.logs import NOW_MS, PARTITION, SMALL, append, open_logs

DAY_MS = 86_400_000


def test_deleted_partitions_wait_by_a_monotonic_clock(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties({"log.dirs": str(tmp_path)})
    logs = open_logs(tmp_path)
    wall_ms, clock_ms = NOW_MS + DAY_MS, 0
    tasks = log_tasks(
        DynamicConfig(config),
        logs,
        cast("ReplicaManager", None),
        now_ms=lambda: wall_ms,
        clock_ms=lambda: clock_ms,
    )
    remove = next(task.run for task in tasks if task.name == "kafka-delete-logs")
    logs.create(PARTITION, SMALL, None, now_ms=NOW_MS)
    logs.delete(PARTITION)
    remove()
    # An operator corrects the wall clock, which was a day ahead.
    wall_ms = NOW_MS
    clock_ms = config.topic_defaults.file_delete_delay_ms - 1
    remove()
    assert len(list(tmp_path.glob("*-delete"))) == 1
    clock_ms += 1
    remove()
    assert list(tmp_path.glob("*-delete")) == []
    logs.close()


async def test_producers_expire_in_turns(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties({"log.dirs": str(tmp_path)})
    logs = open_logs(tmp_path)
    turns = 0
    expired_in: list[int] = []

    class Producers(ProducerState):
        def __len__(self) -> int:
            return ITEMS_PER_TURN

        def expire(self, now_ms: int, expiration_ms: int) -> int:
            del now_ms, expiration_ms
            expired_in.append(turns)
            return 0

    class Guarded:
        def expire_guards(self, now_ms: int, expiration_ms: int) -> None:
            del now_ms, expiration_ms
            expired_in.append(-1)

    for number in range(3):
        log = logs.create(TopicPartition("orders", number), SMALL, None, now_ms=NOW_MS)
        log.producers = Producers()
    tasks = log_tasks(
        DynamicConfig(config),
        logs,
        cast("ReplicaManager", [Guarded()]),
        now_ms=lambda: NOW_MS,
        clock_ms=lambda: 0,
    )
    run = next(task.run for task in tasks if task.name == "PeriodicProducerExpirationCheck")
    remainder = run()
    assert remainder is not None
    running = asyncio.ensure_future(remainder)
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    await running
    assert expired_in == [0, 1, 2, -1]


@pytest.mark.parametrize(("delay", "period_ms"), [("0", 100), ("300", 300), ("60000", 1_000)])
def test_obsolete_files_are_looked_for_with_pauses(
    tmp_path: Path, delay: str, period_ms: int
) -> None:
    properties = {"log.dirs": str(tmp_path), "log.segment.delete.delay.ms": delay}
    logs = open_logs(tmp_path)
    tasks = log_tasks(
        DynamicConfig(BrokerConfig.from_properties(properties)),
        logs,
        cast("ReplicaManager", None),
        now_ms=lambda: NOW_MS,
        clock_ms=lambda: 0,
    )
    assert [t.period_ms for t in tasks if t.name == "kafka-delete-logs"] == [period_ms]
    logs.close()


def test_flushes_are_due_by_a_monotonic_clock(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties({"log.dirs": str(tmp_path)})
    logs = open_logs(tmp_path)
    wall_ms, clock_ms = NOW_MS, 0
    tasks = log_tasks(
        DynamicConfig(config),
        logs,
        cast("ReplicaManager", None),
        now_ms=lambda: wall_ms,
        clock_ms=lambda: clock_ms,
    )
    flush = next(task.run for task in tasks if task.name == "kafka-log-flusher")
    log = logs.create(PARTITION, replace(SMALL, flush_ms=1_000), None, now_ms=NOW_MS)
    flush()
    append(log)
    # The wall clock was a day ahead until now.
    wall_ms -= DAY_MS
    clock_ms = 999
    flush()
    assert log.recovery_point == 0
    clock_ms = 1_000
    flush()
    assert log.recovery_point == 1
    logs.close()
