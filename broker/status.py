"""The status of a broker while it starts, runs and stops (composition)."""

from __future__ import annotations

from collections.abc import Callable

from broker.broker_gauges import add_network_gauges
from broker.exposition import exposition
from broker.metrics import Metrics
from broker.network.listener import Listener
from broker.network.metrics import NetworkMetrics
from broker.scheduler import Scheduler
from broker.startup_steps import StartupSteps
from broker.status_server import StatusServer


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
