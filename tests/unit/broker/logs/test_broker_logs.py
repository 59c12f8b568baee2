"""The opening of a broker's logs."""

import asyncio
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.config.broker_config import BrokerConfig
from broker.logs.broker_logs import BrokerLogs
from broker.status.gauges import Metrics
from storage.config.log_config import LogConfig
from storage.directory.boot_id import current_boot_id
from storage.directory.logs import Logs
from storage.disk.layout import CLEAN_SHUTDOWN
from tests.unit.storage.logs import NOW_MS, PARTITION, SMALL, create, open_logs


def broker_logs(path: Path, executor: Executor, running: AsyncExitStack) -> BrokerLogs:
    return BrokerLogs(
        BrokerConfig.from_properties({"log.dirs": str(path)}).logs,
        Metrics(),
        loop=asyncio.get_running_loop(),
        executor=executor,
        running=running,
        now_ms=lambda: NOW_MS,
    )


async def test_an_ended_start_keeps_the_recovery_of_the_logs(tmp_path: Path) -> None:
    crashed = open_logs(tmp_path, boot_id=current_boot_id())
    crashed.accept()
    create(crashed)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    loop, is_opening, may_open = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def config_of(_topic: str) -> LogConfig:
        loop.call_soon_threadsafe(is_opening.set)
        may_open.wait()
        return SMALL

    with ThreadPoolExecutor(1) as executor:
        async with AsyncExitStack() as running:
            logs = broker_logs(tmp_path, executor, running)
            opening = asyncio.ensure_future(
                logs.open(
                    [tmp_path],
                    config_of=config_of,
                    on_offline=lambda _path: None,
                    recovery_threads=1,
                )
            )
            await is_opening.wait()
            opening.cancel()
            may_open.set()
            with pytest.raises(asyncio.CancelledError):
                await opening
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("step", ["cut_at_gaps", "accept"])
async def test_an_ended_start_closes_the_logs_after_their_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    loop, has_begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    steps: list[str] = []
    real_close = Logs.close

    def work(_logs: Logs, *_partitions: object) -> None:
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait()
        steps.append("cut")

    def close(logs: Logs) -> None:
        steps.append("closed")
        may_end.set()
        real_close(logs)

    monkeypatch.setattr(Logs, step, work)
    monkeypatch.setattr(Logs, "close", close)
    with ThreadPoolExecutor(2) as executor:
        async with AsyncExitStack() as running:
            logs = broker_logs(tmp_path, executor, running)
            await logs.open(
                [tmp_path],
                config_of=lambda _topic: SMALL,
                on_offline=lambda _path: None,
                recovery_threads=1,
            )
            accepting = asyncio.ensure_future(logs.accept([PARTITION]))
            await has_begun.wait()
            accepting.cancel()
            await asyncio.wait([accepting], timeout=0)
            if not accepting.done():
                may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await accepting
    assert steps == ["cut", "closed"]
