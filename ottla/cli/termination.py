"""Lets SIGTERM and SIGHUP end the work of a client in order, as Ctrl-C does (edge).

Every command imports this module, so it loads asyncio only when there is work.
"""

import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from speedups.stop_signals import EXIT_SIGNALLED, end_at_once

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """A signal has ended the command; except for the exit code, this is like Ctrl-C."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.exit_code = EXIT_SIGNALLED + number


def run_until_signal(work: Coroutine[object, object, T]) -> T:
    """Run `work` in an event loop of its own and return its result.

    SIGTERM cancels it, so that it sends its records, commits its offsets and leaves its group, and
    so does SIGHUP, when the terminal closes. A second SIGTERM ends the process at once.

    Raises:
        Terminated: a signal has cancelled the work.
        KeyboardInterrupt: Ctrl-C has cancelled it.
    """
    import asyncio

    termination = _Termination()
    with termination.handling():
        result = asyncio.run(termination.outcome(work))
    if result is None:
        raise Terminated(termination.number)
    return result[0]


class _Termination:
    def __init__(self) -> None:
        self.number = 0
        """The first signal; 0 without one."""
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Handle each signal in this block, unless the parent has decided about it."""
        is_main = threading.current_thread() is threading.main_thread()
        handled = [each for each in SIGNALS if is_main and signal.getsignal(each) is signal.SIG_DFL]
        for each in handled:
            signal.signal(each, self._on_signal)
        try:
            yield
        finally:
            for each in handled:
                signal.signal(each, signal.SIG_DFL)

    async def outcome(self, work: Coroutine[object, object, T]) -> tuple[T] | None:
        """Return the result of `work`; None if it was terminated."""
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        self._running = asyncio.get_running_loop(), task
        if self.number:
            # The signal preceded the task.
            task.cancel()
        try:
            return (await work,)
        except asyncio.CancelledError:
            if self.number:
                return None
            raise
        finally:
            # A later signal finds no work to cancel, and soon no loop.
            self._running = None

    def _on_signal(self, number: int, *_: object) -> None:
        # No handler of the event loop, which could be busy with a write to a pipe that is full.
        if self.number:
            if number == signal.SIGHUP:
                # A terminal that closes may send it twice, from the shell and from the system.
                return
            end_at_once(signal.SIGTERM)
        self.number = number
        if self._running is not None:
            loop, task = self._running
            loop.call_soon_threadsafe(task.cancel)
