"""An event loop in a thread of its own, for calls of our asyncio client from any code (edge).

A test may run in an event loop, in another framework's, or in none: the client has its own.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

THREAD_NAME: Final = "ottla-testing"


class ClientThread:
    """The loop runs from the creation to `close`. Any thread may call the methods."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=THREAD_NAME, daemon=True
        )
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start `work` in the loop, and return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, and return its result."""
        return self.begin(work).result()

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
