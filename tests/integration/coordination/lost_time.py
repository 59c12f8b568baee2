"""Measures the delay of this loop's timers on a busy machine. Edge."""

import asyncio
import time
from types import TracebackType
from typing import Final, Self

TICK_S: Final = 0.01
# Usual delay of a timer on an idle machine.
USUAL_S: Final = 0.005


class LostTime:
    """Context manager that sums up the delays of timers, in seconds."""

    def __init__(self) -> None:
        self.total_s = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _tick(self) -> None:
        while True:
            begin_s = time.monotonic()
            await asyncio.sleep(TICK_S)
            late_s = time.monotonic() - begin_s - TICK_S
            if late_s > USUAL_S:
                self.total_s += late_s
