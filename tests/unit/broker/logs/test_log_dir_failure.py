"""Failures of log directories, early and late: `broker.logs.log_dir_failure`."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.logs.log_dir_failure import LogDirFailure
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from storage.directory.logs import Logs
from storage.errors import LogDirOfflineError
from tests.unit.broker.replicas import make_manager
from tests.unit.storage.logs import NOW_MS, SMALL


class Broker:
    """The parts of a broker that a failed directory concerns."""

    def __init__(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        self.reasons: list[str] = []
        unused = cast(Any, object())
        self.failure = LogDirFailure(unused, RequestTasks(loop), loop, self.reasons.append)
        self.logs = Logs.open(
            [path],
            config_of=lambda _topic: SMALL,
            now_ms=NOW_MS,
            on_offline=self.failure.on_failed,
        )
        self.replicas = make_manager(self.logs, MetadataCache(), Purgatory(loop))

    async def lose_directory(self) -> None:
        """Let the directory fail, as a thread does."""
        directory = self.logs.table.directories[0]
        await asyncio.to_thread(directory.health.give_up, "broken")
        # The thread has handed the failure to the loop before its own end.
        await asyncio.sleep(0)


async def test_a_broker_that_lost_its_last_directory_before_the_watch_does_not_start(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    await broker.lose_directory()
    with pytest.raises(LogDirOfflineError, match="no log dir of this broker can be used"):
        broker.failure.watch(broker.logs, broker.replicas)


async def test_the_loss_of_the_last_directory_stops_the_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.failure.watch(broker.logs, broker.replicas)
    await broker.lose_directory()
    assert broker.reasons == [f"log dir {tmp_path} failed, and no other is left"]
