"""Signals and exit code of a broker's process: `broker.daemon`."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from broker import daemon
from broker.config.broker_config import BrokerConfig
from broker.daemon import EXIT_FAILED, KILL_SIGNALS, STOP_SIGNALS, _serve, _stop_at_signals
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


async def test_a_second_hangup_does_not_end_the_process() -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    own = [signal.getsignal(each) for each in KILL_SIGNALS]
    _stop_at_signals(loop, stopping)
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(10):
            await stopping.wait()
        # A second one of the others ends it, as before the start.
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
        for number, handler in zip(KILL_SIGNALS, own, strict=True):
            signal.signal(number, handler)
