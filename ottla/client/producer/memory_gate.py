"""Lets tasks wait for memory, first come, first served (edge).

Invariant: a task that stops waiting, for any reason, withdraws its claim.
"""

import asyncio

from ottla.client.errors import BufferFullError, OttlaError
from ottla.client.producer.memory_budget import Claim, MemoryBudget


class MemoryGate:
    """Lets each task continue once its memory is reserved."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        # In the order of their creation, so that a simulation repeats itself.
        self._waiters: dict[asyncio.Future[None], None] = {}

    async def reserve(self, size_bytes: int, timeout_s: float) -> None:
        """Reserve `size_bytes` of the budget, after all tasks that already wait.

        Raises:
            BufferFullError: the memory did not become free within `timeout_s`.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_granted() -> None:
            if not waiter.done():
                waiter.set_result(None)

        claim: Claim | None = self._budget.claim(size_bytes, on_granted)
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
            claim = None
        except TimeoutError as error:
            raise BufferFullError(
                "no memory became free in time (max_block_ms): the brokers are slower than this "
                "producer; raise buffer_memory_bytes or send less"
            ) from error
        finally:
            self._waiters.pop(waiter, None)
            if claim is not None:
                self._budget.withdraw(claim)

    def close(self, error: OttlaError) -> None:
        """Fail all waiting tasks with `error`."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
