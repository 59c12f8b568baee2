"""The status of a broker while it starts, runs and stops (composition)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from broker.config.listener import Listener
from broker.network.metrics import NetworkMetrics
from broker.scheduler import Scheduler
from broker.status.gauges import Metrics, add_network_gauges
from broker.status.health import Serving, fatal_troubles, troubles
from broker.status.loop_watch import LoopWatch
from broker.status.request_metrics import request_pieces
from monitoring.process_metrics import process_pieces
from monitoring.status_server import StatusServer, health_page, json_page

Source = Callable[[], Iterator[str] | AsyncIterator[str]]
"""Returns the text of some metrics, in pieces that are made in a millisecond or so each."""

log = structlog.get_logger(__name__)


class BrokerStatus:
    """Metrics, startup steps and periodic tasks, with the status pages that show them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        broker: Serving,
        cpu_s: Callable[[], float],
    ) -> None:
        """Report on `broker`; `cpu_s` returns the processor time of the loop's thread."""
        self.metrics = Metrics()
        self.network_metrics = NetworkMetrics()
        self.steps = StartupSteps(loop.time)
        self._scheduler = scheduler
        self._broker = broker
        self._loop_watch = LoopWatch(loop, cpu_s)
        add_network_gauges(self.metrics, self.network_metrics)
        self._sources: list[Source] = [
            self.metrics.pieces,
            lambda: request_pieces(self.network_metrics.requests),
            self._loop_watch.pieces,
            process_pieces,
        ]

    def add(self, source: Source) -> None:
        """Show the metrics of `source`, too."""
        self._sources.append(source)

    async def show(self, listener: Listener) -> None:
        """Serve the status pages over HTTP until `hide`.

        Raises:
            OSError: the address cannot be bound.
        """
        self._loop_watch.start()
        self._server = StatusServer(
            listener.host,
            listener.port,
            {
                "/metrics": self._metrics_page,
                "/healthz": health_page(lambda: fatal_troubles(self._broker)),
                "/readyz": health_page(lambda: troubles(self._broker)),
                "/tasks": json_page(self._scheduler.described),
                "/startup": json_page(self.steps.described),
            },
        )
        await self._server.start()

    async def hide(self) -> None:
        """Stop serving the pages."""
        self._loop_watch.stop()
        await self._server.stop()

    async def _metrics_page(self) -> AsyncIterator[str]:
        for source in list(self._sources):
            pieces = source()
            if isinstance(pieces, Iterator):
                for piece in pieces:
                    yield piece
            else:
                async for piece in pieces:
                    yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupStep:
    """A completed step."""

    name: str
    duration_ms: float


class StartupSteps:
    """The completed steps of a start; a failed step is not recorded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self.taken: list[StartupStep] = []
        self._clock = clock

    def described(self) -> list[dict[str, object]]:
        """Return the steps so far, in order."""
        return [{"step": each.name, "duration_ms": each.duration_ms} for each in self.taken]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record the step `name` when its block has completed."""
        began_s = self._clock()
        yield
        duration_ms = round((self._clock() - began_s) * 1000, 1)
        self.taken.append(StartupStep(name=name, duration_ms=duration_ms))
        log.info("startup.step", number=len(self.taken), step=name, duration_ms=duration_ms)
