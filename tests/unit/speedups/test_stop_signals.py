"""Signals of a daemon's process: `speedups.stop_signals`."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from speedups.stop_signals import EXIT_SIGNALLED, KILL_SIGNALS, STOP_SIGNALS, stop_at_signals

TIMEOUT_S = 60
HANG = """
import asyncio
import signal
import sys

import uvloop

async def hang(stopping):
    print("ready", flush=True)
    await stopping.wait()
    print("stopping", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cancelled", flush=True)
"""
BROKER = """
from broker import daemon
from broker.config.broker_config import BrokerConfig
from broker.log_levels import LogLevels

class Node:
    def __init__(self, _config, loop, _levels):
        self.failed = loop.create_future()

    async def start(self):
        print("ready", flush=True)

    async def stop(self):
        stopping = asyncio.Event()
        stopping.set()
        await hang(stopping)

daemon.Node = Node
daemon.run(BrokerConfig(), LogLevels())
"""
COORDINATOR = """
from coordination import daemon

async def serve(config, directory, *, on_ready, stop):
    await hang(stop)

daemon.serve = serve
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(daemon.run_until_signal(None, None, print))
"""
# To process 1 of a container, the kernel delivers no signal without a handler.
FIRST_PROCESS = "signal.raise_signal = lambda number: None"


def ended(script: str, first: signal.Signals, second: signal.Signals) -> int:
    """Run a daemon whose stop hangs; return its exit code after two signals."""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for expected, number in (("ready", first), ("stopping", second)):
                while process.stdout.readline().strip() != expected:
                    assert process.poll() is None
                process.send_signal(number)
            return process.wait(TIMEOUT_S)
        finally:
            process.kill()


@pytest.mark.parametrize("daemon", [BROKER, COORDINATOR], ids=["broker", "coordinator"])
@pytest.mark.parametrize("second", KILL_SIGNALS)
def test_a_second_signal_ends_a_stop_that_hangs(daemon: str, second: signal.Signals) -> None:
    assert ended(HANG + daemon, signal.SIGINT, second) == -second


@pytest.mark.parametrize("daemon", [BROKER, COORDINATOR], ids=["broker", "coordinator"])
def test_a_second_signal_ends_the_first_process_of_a_container(daemon: str) -> None:
    script = HANG + FIRST_PROCESS + daemon
    expected = EXIT_SIGNALLED + signal.SIGTERM
    assert ended(script, signal.SIGTERM, signal.SIGTERM) == expected


async def test_a_second_hangup_does_not_end_the_process() -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    own = [signal.getsignal(each) for each in KILL_SIGNALS]
    stop_at_signals(loop, stopping)
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(10):
            await stopping.wait()
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
        for number, handler in zip(KILL_SIGNALS, own, strict=True):
            signal.signal(number, handler)
