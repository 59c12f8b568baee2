"""Signals that end a process: the first one in order, a second one at once (edge).

This module is below both daemons, so it imports nothing of Ottla. Every command imports it, too, so
it does not load asyncio.
"""

import os
import signal
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import asyncio

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
EXIT_SIGNALLED: Final = 128
"""Added to the number of a signal, this is the exit code that shells report."""


def stop_at_signals(loop: "asyncio.AbstractEventLoop", stopping: "asyncio.Event") -> None:
    """Set `stopping` at the first signal; a second SIGTERM or SIGINT ends the process at once.

    A terminal that closes may send SIGHUP twice, from the shell and from the system.
    """

    def on_signal() -> None:
        for each in KILL_SIGNALS:
            loop.remove_signal_handler(each)
            # No handler of the loop, which a step of the stop may hold up.
            signal.signal(each, lambda number, _: end_at_once(number))
        stopping.set()

    for number in STOP_SIGNALS:
        # Under nohup, SIGHUP must stay ignored.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal)


def end_at_once(number: int) -> NoReturn:
    """End this process as the signal does by default."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    # The kernel does not let a signal kill process 1 of a container.
    os._exit(EXIT_SIGNALLED + number)
