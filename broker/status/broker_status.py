"""The status of a broker while it starts, runs and stops (composition)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from broker.config.listener import Listener
from broker.network.metrics import NetworkMetrics
from broker.scheduler import Scheduler
from broker.status.exposition import exposition
from broker.status.gauges import Metrics, add_network_gauges
from broker.status.status_server import StatusServer

log = structlog.get_logger(__name__)


class BrokerStatus:
    """Metrics, startup steps and periodic tasks, with the status pages that show them."""

    def __init__(self, clock: Callable[[], float], scheduler: Scheduler) -> None:
        """`clock` gives seconds."""
        self.metrics = Metrics()
        self.network_metrics = NetworkMetrics()
        self.steps = StartupSteps(clock)
        self._scheduler = scheduler
        add_network_gauges(self.metrics, self.network_metrics)

    async def show(self, listener: Listener) -> StatusServer:
        """Serve the status pages over HTTP until the returned server is stopped.

        Raises:
            OSError: the address cannot be bound.
        """
        server = StatusServer(
            listener,
            {
                "/metrics": self._metrics_page,
                "/tasks": self._scheduler.described,
                "/startup": self.steps.described,
            },
        )
        await server.start()
        return server

    def _metrics_page(self) -> str:
        return exposition(self.metrics.snapshot(), self.network_metrics.requests)


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
