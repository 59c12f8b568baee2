"""Watches the event loop: the lateness of its timers, and the share of time that it idles (edge).

Kafka has threads for sockets and for requests; here one loop does the work of both, so its share
of idle time stands for both of Kafka's metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from monitoring.exposition import COUNTER, GAUGE, SUMMARY, Family, value_text
from monitoring.samples import Samples

TICK_S: Final = 0.1
TICKS_PER_SHARE: Final = 50
"""Ticks over which the idle share is taken: five seconds."""
LAG: Final = Family(
    name="ottla_loop_lag_seconds",
    kind=SUMMARY,
    meaning="Lateness of the event loop's timers; every request waits that long.",
    labels=("quantile",),
)
LAG_MAX: Final = Family(
    name="ottla_loop_lag_max_seconds",
    kind=GAUGE,
    meaning="Largest lateness of a timer since the start.",
)
LATE: Final = Family(
    name="ottla_loop_stalls_total",
    kind=COUNTER,
    meaning="Timers that were late by more than 100 ms.",
)
NETWORK_IDLE: Final = Family(
    name="kafka_network_socketserver_networkprocessoravgidle_percent",
    kind=GAUGE,
    meaning="Share of the last five seconds in which the event loop was idle, 0 to 1.",
)
HANDLER_IDLE: Final = Family(
    name="kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    kind=GAUGE,
    meaning="The same value: one loop serves the sockets and handles the requests.",
)
LOOP_FAMILIES: Final = (LAG, LAG_MAX, LATE, NETWORK_IDLE, HANDLER_IDLE)


class LoopWatch:
    """Measures from `start` until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cpu_s: Callable[[], float]) -> None:
        """`cpu_s` returns the processor time of the loop's thread."""
        self._loop = loop
        self._cpu_s = cpu_s
        self._lags = Samples()
        self._stall_count = 0
        self._idle = 1.0
        self._due_s = 0.0
        self._ticks_left = TICKS_PER_SHARE
        self._began = (0.0, 0.0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to measure."""
        self._began = (self._loop.time(), self._cpu_s())
        self._set_timer()

    def stop(self) -> None:
        """Stop to measure."""
        if self._timer is not None:
            self._timer.cancel()

    def pieces(self) -> Iterator[str]:
        """Yield the metrics of the loop."""
        lines = [
            f'{LAG.name}{{quantile="{text}"}} {value_text(value)}\n'
            for text, value in self._lags.quantiles()
        ]
        yield from LAG.pieces_of([*lines, f"{LAG.name}_count {self._lags.count}\n"])
        yield from LAG_MAX.pieces([((), self._lags.largest)])
        yield from LATE.pieces([((), self._stall_count)])
        yield from NETWORK_IDLE.pieces([((), self._idle)])
        yield from HANDLER_IDLE.pieces([((), self._idle)])

    def _set_timer(self) -> None:
        self._due_s = self._loop.time() + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        lag_s = max(0.0, self._loop.time() - self._due_s)
        self._lags.add(lag_s)
        self._stall_count += lag_s > TICK_S
        self._ticks_left -= 1
        if not self._ticks_left:
            self._ticks_left = TICKS_PER_SHARE
            now = (self._loop.time(), self._cpu_s())
            elapsed_s, used_s = now[0] - self._began[0], now[1] - self._began[1]
            self._idle = min(1.0, max(0.0, 1 - used_s / elapsed_s)) if elapsed_s else 1.0
            self._began = now
        self._set_timer()
