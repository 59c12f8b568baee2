"""Signals of a broker's process: `broker.daemon`."""

import asyncio
import os
import signal

from broker.daemon import KILL_SIGNALS, STOP_SIGNALS, _stop_at_signals


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
