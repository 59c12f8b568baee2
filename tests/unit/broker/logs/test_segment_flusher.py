"""Closed segments are synced soon after their log has rolled."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.config.broker_config import BrokerConfig
from broker.logs.broker_logs import BrokerLogs
from broker.logs.segment_flusher import SegmentFlusher
from broker.status.gauges import Metrics
from kafkawire.ids import TopicPartition
from storage.directory.logs import Logs
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import NOW_MS, SMALL, append, create, fill, log_of, open_logs
from tests.waiting import until

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
LIMIT_S = 20.0


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
async def logs(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[Logs]:
    opened = open_logs(tmp_path / "one")
    flusher = SegmentFlusher(opened.table, asyncio.get_running_loop(), executor)
    opened.table.on_rolled = flusher.flush_soon
    yield opened
    await flusher.stop()
    opened.close()


def roll(logs: Logs, partition: TopicPartition) -> None:
    """Append until one more segment is closed."""
    log = create(logs, partition)
    count = len(log.segments)
    while len(log.segments) == count:
        append(log)


async def until_synced(logs: Logs, *partitions: TopicPartition) -> None:
    served = [log_of(logs, each) for each in partitions]
    await until(
        lambda: all(each.recovery_point == each.segments[-1].base_offset for each in served)
    )


async def test_a_closed_segment_is_synced_in_a_thread(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        threads.add(threading.current_thread())
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    roll(logs, PARTITIONS[0])
    assert create(logs, PARTITIONS[0]).recovery_point == 0
    await until_synced(logs, PARTITIONS[0])
    assert threads
    assert threading.current_thread() not in threads


async def test_one_thread_works_on_a_log_dir(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that roll during a sync come next, however often they roll."""
    begun, may_end = threading.Event(), threading.Event()
    running, most = 0, 0
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        begun.set()
        may_end.wait(LIMIT_S)
        real(descriptor)
        running -= 1

    monkeypatch.setattr(os, "fdatasync", sync)
    roll(logs, PARTITIONS[0])
    await asyncio.to_thread(begun.wait, LIMIT_S)
    for _ in range(3):
        for each in PARTITIONS:
            roll(logs, each)
            await asyncio.sleep(0)
    may_end.set()
    await until_synced(logs, *PARTITIONS)
    assert most == 1


async def test_a_failed_sync_takes_its_log_dir_offline(logs: Logs) -> None:
    for each in PARTITIONS:
        create(logs, each)
    health = logs.table.directories[0].health
    with failing("fdatasync", errno.EIO):
        roll(logs, PARTITIONS[0])
        await until(lambda: health.failure is not None)


async def test_a_sync_that_finds_no_descriptor_stops_no_other(logs: Logs) -> None:
    first = create(logs, PARTITIONS[0])
    with (
        capture_logs() as captured,
        failing("open", errno.EMFILE, at=lambda path: first.directory == path),
    ):
        for each in PARTITIONS[:2]:
            roll(logs, each)
        await until_synced(logs, PARTITIONS[1])
    assert [each["partition"] for each in captured if each["event"] == "flush.failed"] == [
        "orders-0"
    ]
    assert first.recovery_point == 0
    logs.checkpoints.write_recovery_points()
    assert first.recovery_point > 0


async def test_a_stop_waits_for_the_running_sync(
    tmp_path: Path, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path)
    flusher = SegmentFlusher(logs.table, asyncio.get_running_loop(), executor)
    logs.table.on_rolled = flusher.flush_soon
    begun, may_end = threading.Event(), threading.Event()
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        begun.set()
        may_end.wait(LIMIT_S)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    for each in PARTITIONS[:2]:
        fill(create(logs, each), 1)
        create(logs, each).upkeep.roll(NOW_MS)
        await asyncio.to_thread(begun.wait, LIMIT_S)
    stopping = asyncio.create_task(flusher.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping
    assert [create(logs, each).recovery_point for each in PARTITIONS[:2]] == [1, 0]
    logs.close()


async def test_the_logs_of_a_broker_are_synced_when_they_roll(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as running:
        opened = await BrokerLogs(
            BrokerConfig.from_properties({"log.dirs": str(tmp_path)}).logs,
            Metrics(),
            loop=loop,
            executor=executor,
            running=running,
            now_ms=lambda: NOW_MS,
        ).open(
            [], config_of=lambda _topic: SMALL, on_offline=lambda _path: None, recovery_threads=1
        )
        roll(opened, PARTITIONS[0])
        await until_synced(opened, PARTITIONS[0])
