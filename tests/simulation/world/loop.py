"""An event loop with virtual time for many processes, executors and child processes.

When no callback is ready, time jumps to the next timer. Work for an executor runs in one step after
a random delay: its duration. A child process of Python is a function that runs the same way.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import socket
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

from tests.simulation.world.child import Children
from tests.simulation.world.files import Files
from tests.simulation.world.log_events import LogEvents
from tests.simulation.world.network import Network
from tests.simulation.world.overlaps import Overlaps
from tests.simulation.world.process import current_host, step, timed_step

EXECUTOR_S: Final = (0.0001, 0.02)
MAX_STEPS_AT_ONE_TIME: Final = 200_000
"""More callbacks at one moment of virtual time are an endless loop."""
MIN_TASKS_KEPT: Final = 1000
MAX_ENDS_PER_TASK: Final = 10
"""Attempts to end a task that waits again in its `finally` clauses."""


class _Future(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address."""

    def __init__(self, loop: WorldLoop) -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, loop: WorldLoop, work: Any, **options: Any) -> None:
        self._number = loop.next_number()
        super().__init__(work, loop=loop, **options)
        loop.keep(self)

    def __hash__(self) -> int:
        return self._number


class WorldLoop(asyncio.BaseEventLoop):
    """Event loop of a world; raises RuntimeError on a deadlock."""

    FIRST_S: Final = 1000.0

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.network = Network(self)
        self.files = Files(self.chance)
        self.slow_hosts: dict[str, tuple[float, float]] = {}
        """Hosts where work for an executor takes longer."""
        self.boot_counts: Counter[str] = Counter()
        """Losses of power of each host: the host boots after each."""
        self.children = Children(self)
        self.overlaps = Overlaps()
        self.events = LogEvents()
        self.clock: Any = None
        self.step_count = 0
        self.trace = 0
        self.begin_s = self._now_s = self.FIRST_S
        self._steps_now = 0
        self._last_number = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._max_task_count = MIN_TASKS_KEPT
        self._selector = self
        self.set_task_factory(_Task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now_s

    def next_number(self) -> int:
        """Count the tasks and futures."""
        self._last_number += 1
        return self._last_number

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until it is done.

        The collection of an unfinished task of a dead process would run its `finally` clauses, at a
        time that depends on everything else in memory.
        """
        self._tasks.append(task)
        if len(self._tasks) > self._max_task_count:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._max_task_count = max(MIN_TASKS_KEPT, 2 * len(self._tasks))

    def end_tasks(self) -> None:
        """Run the `finally` clauses of all unfinished tasks, and ignore their errors."""
        self.set_exception_handler(lambda _loop, _context: None)
        # The clauses may create tasks, which must belong to this loop.
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:
                work: Any = task.get_coro()
                for _ in range(MAX_ENDS_PER_TASK):
                    with suppress(BaseException):
                        work.close()
                        break
        finally:
            asyncio._set_running_loop(None)
        self._tasks.clear()

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(self)

    # BaseEventLoop calls its selector to wait; here waiting only advances the time.
    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("deadlock: nothing is ready and no timer is set")
        if timeout > 0:
            self._now_s += timeout
            self._steps_now = 0
        count = len(self._ready)  # type: ignore[attr-defined]
        self.trace = zlib.crc32(struct.pack("<dI", self._now_s, count), self.trace)
        self.step_count += count
        self._steps_now += max(count, 1)
        if self._steps_now > MAX_STEPS_AT_ONE_TIME:
            raise RuntimeError("endless loop: no time passes")
        return []

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: Context | None
    ) -> asyncio.Handle:
        handle = step(self, callback, args, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = timed_step(self, when, callback, args, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        del executor
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        duration_s = self.slow_hosts.get(current_host(), EXECUTOR_S)
        self.call_later(self.chance.uniform(*duration_s), work)
        return future

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self.network.connect(protocol_factory, host, port)

    async def getaddrinfo(  # type: ignore[override]
        self, host: Any, port: Any, **_: Any
    ) -> Sequence[Any]:
        address = self.network.address_of(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    async def subprocess_exec(self, protocol_factory: Any, *args: Any, **_: Any) -> Any:
        return self.children.start(protocol_factory(), [str(each) for each in args])
