"""The timer of a session in a loop that is late."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from coordination.client.session_timer import LATE_MS, READ_FIRST_MS, SessionTimer

WAIT_MS = 1000.0


class Handle:
    """One scheduled call."""

    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class LateLoop:
    """Loop that runs every timer `late_ms` after its time."""

    def __init__(self, late_ms: float) -> None:
        self.now_s = 0.0
        self._late_s = late_ms / 1000
        self._handles: list[Handle] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Handle:
        handle = Handle(self.now_s + delay_s + self._late_s, callback)
        self._handles.append(handle)
        return handle

    def run_next(self) -> None:
        handle = self._handles.pop(0)
        if not handle.is_cancelled:
            self.now_s = handle.at_s
            handle.callback()


class Timed:
    """A timer and the times of its calls; each call sets it again, as a session does."""

    def __init__(self, late_ms: float) -> None:
        self.loop = LateLoop(late_ms)
        self.called_ms: list[float] = []
        self.timer = SessionTimer(cast(asyncio.AbstractEventLoop, self.loop), self._on_due)
        self.timer.set(WAIT_MS)

    def _on_due(self) -> None:
        self.called_ms.append(self.loop.now_s * 1000)
        self.timer.set(WAIT_MS)


def test_a_timer_that_is_not_late_acts_at_once() -> None:
    timed = Timed(LATE_MS / 2)
    timed.loop.run_next()
    assert timed.called_ms == pytest.approx([WAIT_MS + LATE_MS / 2])


def test_a_late_timer_lets_the_sockets_be_read_once_before_it_acts() -> None:
    late_ms = LATE_MS + 1
    timed = Timed(late_ms)
    timed.loop.run_next()
    assert timed.called_ms == []
    # Also in a loop that is always late, or no ping would ever be sent.
    timed.loop.run_next()
    assert timed.called_ms == pytest.approx([WAIT_MS + READ_FIRST_MS + 2 * late_ms])


@pytest.mark.parametrize("turns", [0, 1])
def test_a_cancelled_timer_does_not_act(turns: int) -> None:
    timed = Timed(LATE_MS + 1)
    for _ in range(turns):
        timed.loop.run_next()
    timed.timer.cancel()
    timed.loop.run_next()
    assert timed.called_ms == []
