"""Processes of a simulated world, each of which runs callbacks until it is killed.

A process is a context variable that every task, timer and callback inherits. A killed process runs
no further step, as after `kill -9`: not even its `finally` clauses. A paused one keeps its steps
for later, as after SIGSTOP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final


class Process:
    """One run of a program on a host."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.death = asyncio.Event()
        self.is_paused = False
        self.context = copy_context()
        self.context.run(PROCESS.set, self)
        self.tasks: list[asyncio.Task[Any]] = []
        """Kept, because the collection of an unfinished task runs its `finally` clauses."""
        self._held: list[asyncio.Handle] = []

    @property
    def is_dead(self) -> bool:
        """Whether the process was killed, or has ended."""
        return self.death.is_set()

    async def outlives(self, task: asyncio.Task[Any]) -> bool:
        """Wait until `task` of this process is done; return False if the process dies before."""
        death = asyncio.ensure_future(self.death.wait())
        try:
            await asyncio.wait((task, death), return_when=asyncio.FIRST_COMPLETED)
        finally:
            death.cancel()
        return task.done()

    def pause(self) -> None:
        """Run no step until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Run the steps that came meanwhile, in their order, and all later ones."""
        self.is_paused = False
        held, self._held = self._held, []
        for handle in held:
            handle._loop._ready.append(handle)  # type: ignore[attr-defined]

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep a step for later."""
        self._held.append(handle)


PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


def current_host() -> str:
    """Return the host of the running process; the judges live on a host of their own."""
    process = PROCESS.get()
    return "judge" if process is None else process.host


class _Step(asyncio.Handle):
    """A callback of a process."""

    def _run(self) -> None:
        if _may_run(self, self._context):  # type: ignore[attr-defined]
            super()._run()


class _TimedStep(asyncio.TimerHandle):
    """A timer of a process."""

    def _run(self) -> None:
        if _may_run(self, self._context):  # type: ignore[attr-defined]
            super()._run()


def _may_run(handle: asyncio.Handle, context: Context) -> bool:
    process = context.get(PROCESS)
    if process is None:
        return True
    if process.is_dead:
        return False
    if process.is_paused:
        process.hold(handle)
        return False
    return True


def step(
    loop: asyncio.AbstractEventLoop,
    callback: Callable[..., object],
    arguments: Any,
    context: Context | None,
) -> asyncio.Handle:
    """Return a handle that runs `callback` in the process of `context`."""
    return _Step(callback, arguments, loop, context)


def timed_step(
    loop: asyncio.AbstractEventLoop,
    when_s: float,
    callback: Callable[..., object],
    arguments: Any,
    context: Context | None,
) -> asyncio.TimerHandle:
    """Return a timer that runs `callback` in the process of `context`."""
    return _TimedStep(when_s, callback, arguments, loop, context)
