"""The serving side of a broker: listeners, waiting requests and tasks of requests (composition)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import structlog

from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.cluster.metadata_watch import MetadataWatch
from broker.config.listener import Listener
from broker.config.network_keys import NetworkKeys
from broker.network.limits import NetworkLimits, network_limits_of
from broker.network.metrics import NetworkMetrics
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.request_tasks import RequestTasks
from broker.network.socket_server import SocketServer
from broker.purgatory import Purgatory
from broker.secured_listeners import SecuredListeners
from kafkawire.ids import TopicPartition

DRAIN_TIMEOUT_S: Final = 10.0
"""Time for clients to read their last responses when the broker stops."""
FALLBACK_HOST: Final = "localhost"

log = structlog.get_logger(__name__)


class Coordinator(Protocol):
    """A coordinator, whose requests may wait."""

    async def stop(self) -> None:
        """Fail all waiting requests, and refuse further ones."""


class Serving:
    """Serves requests. Call `listen`, then `open`, then `stop`."""

    def __init__(self, metadata: MetadataCache, loop: asyncio.AbstractEventLoop) -> None:
        self.purgatory: Purgatory[TopicPartition] = Purgatory(loop)
        self.tasks = RequestTasks(loop)
        self.watch = MetadataWatch(metadata)
        self.server: SocketServer
        self._channel: RequestChannel
        self._loop = loop

    async def listen(
        self,
        handle: Callable[[Request], Reply],
        config: NetworkKeys,
        limits: NetworkLimits,
        metrics: NetworkMetrics,
        secured: SecuredListeners,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Bind all listeners; until `open`, only requests that a start needs are handled.

        `clock` times requests, in seconds; without it the loop's time does, whose unit is a
        millisecond.

        Raises:
            OSError: an address cannot be bound.
        """
        self._channel = RequestChannel(
            self._loop, handle, network_limits_of(config), metrics, clock, is_open=False
        )
        self.server = SocketServer(
            config.listening,
            limits,
            self._channel,
            control_plane_listener_name=config.control_plane_listener,
            inter_broker_listener_name=config.inter_broker_listener,
            security=secured.make(handle, metrics, self._loop),
        )
        await self.server.start()

    def open(self) -> None:
        """Handle all requests from now on."""
        self._channel.open()

    async def stop(self, *coordinators: Coordinator) -> None:
        """Answer the requests already read, as far as clients read responses, and disconnect."""
        self.server.stop_accepting()
        for each in coordinators:
            await each.stop()
        self.purgatory.close()
        self.watch.close()
        if not await self.server.drain(DRAIN_TIMEOUT_S):
            log.warning(
                "connections.cut_off",
                connection_count=self.server.connection_count,
                waits_for=self.server.describe_open(),
            )
        await self.server.close()
        await self.tasks.stop()

    @property
    def bound_addresses(self) -> list[str]:
        """The addresses of the listeners, each as HOST:PORT."""
        bound = self.server.bound_addresses.values()
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bound]

    def advertise(self, advertised: Iterable[Listener]) -> dict[str, Endpoint]:
        """Return the endpoints for the clients of the `advertised` listeners."""
        ports = {name: port for name, (_, port) in self.server.bound_addresses.items()}
        return advertised_endpoints(advertised, ports, machine_name)


def advertised_endpoints(
    advertised: Iterable[Listener],
    bound_ports: Mapping[str, int],
    host_name: Callable[[], str],
) -> dict[str, Endpoint]:
    """Return the endpoint of this broker for the clients of each listener.

    An empty host denotes this machine, port 0 the port that the system has chosen.
    """
    return {
        listener.name: Endpoint(
            listener.host or host_name(), listener.port or bound_ports[listener.name]
        )
        for listener in advertised
    }


def machine_name() -> str:
    """Return the name of this machine; "localhost" if the name cannot be resolved."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK_HOST
    return name
