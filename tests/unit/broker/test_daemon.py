"""Exit code of a broker's process: `broker.daemon`."""

import asyncio
import gc
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from broker import daemon
from broker.config.broker_config import BrokerConfig
from broker.daemon import EXIT_FAILED, _serve
from broker.log_levels import LogLevels


class FailingNode:
    """A broker that fails while its start waits for another process."""

    def __init__(self, _config: object, loop: asyncio.AbstractEventLoop, _levels: object) -> None:
        self.failed: asyncio.Future[str] = loop.create_future()

    async def start(self) -> None:
        """Fail, and wait until cancelled."""
        self.failed.set_result("no log dir is left")
        await asyncio.Event().wait()


@pytest.fixture
def own_collector() -> Iterator[None]:
    """Restore the collector, which a broker sets for its process."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("own_collector")
async def test_a_failure_during_the_start_is_logged_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon, "Node", FailingNode)
    with capture_logs() as lines:
        async with asyncio.timeout(10):
            code = await _serve(BrokerConfig(), LogLevels())
    failures = [each["error"] for each in lines if each["event"] == "broker.failed"]
    assert (code, failures) == (EXIT_FAILED, ["no log dir is left"])
