"""Lets SIGTERM end the work of a client in order, as Ctrl-C does (edge).

Every command imports this module, so it loads asyncio only when there is work.
"""

import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
EXIT_TERMINATED: Final = 143
"""128 and the number of SIGTERM, as shells report it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has ended the command; except for the exit code, this is like Ctrl-C."""


def run_until_signal(work: Coroutine[object, object, T]) -> T:
    """Run `work` in an event loop of its own and return its result.

    SIGTERM cancels it, so that it sends its records, commits its offsets and leaves its group. A
    second SIGTERM ends the process at once.

    Raises:
        Terminated: SIGTERM has cancelled the work.
        KeyboardInterrupt: Ctrl-C has cancelled it.
    """
    import asyncio

    termination = _Termination()
    with termination.handling():
        result = asyncio.run(termination.outcome(work))
    if result is None:
        raise Terminated
    return result[0]


class _Termination:
    def __init__(self) -> None:
        self._is_requested = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Handle the signal in this block, unless the parent has decided about it."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def outcome(self, work: Coroutine[object, object, T]) -> tuple[T] | None:
        """Return the result of `work`; None if it was terminated."""
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        self._running = asyncio.get_running_loop(), task
        if self._is_requested:
            # The signal preceded the task.
            task.cancel()
        try:
            return (await work,)
        except asyncio.CancelledError:
            if self._is_requested:
                return None
            raise
        finally:
            # A later signal finds no work to cancel, and soon no loop.
            self._running = None

    def _on_signal(self, *_: object) -> None:
        # No handler of the event loop, which could be busy with a write to a pipe that is full.
        if self._is_requested:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
            # The kernel does not let a signal kill process 1 of a container.
            os._exit(EXIT_TERMINATED)
        self._is_requested = True
        if self._running is not None:
            loop, task = self._running
            loop.call_soon_threadsafe(task.cancel)
