"""The opening of a broker's logs."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker.config.broker_config import BrokerConfig
from broker.logs.broker_logs import BrokerLogs
from broker.status.gauges import Metrics
from storage.config.log_config import LogConfig
from storage.directory.boot_id import current_boot_id
from storage.disk.layout import CLEAN_SHUTDOWN
from tests.unit.storage.logs import NOW_MS, SMALL, create, open_logs


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
            logs = BrokerLogs(
                BrokerConfig.from_properties({"log.dirs": str(tmp_path)}).logs,
                Metrics(),
                loop=loop,
                executor=executor,
                running=running,
                now_ms=lambda: NOW_MS,
            )
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
