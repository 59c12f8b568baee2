"""All listeners of a broker and the connections to them (edge).

Owns the shared receive memory, the connection quota and the idle clock. Invariant: after
`close()` no connection, timer or buffer of it is left.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

import structlog

from broker.network.acceptor import Acceptor
from broker.network.buffer_pool import BufferPool
from broker.network.connection_quota import ConnectionQuota
from broker.network.limits import NetworkLimits
from broker.network.listener import Listener
from broker.network.metrics import NetworkMetrics
from broker.network.network import Network
from broker.network.processor import Processor
from broker.network.receive_memory import ReceiveMemory
from broker.network.request_channel import RequestChannel

# How often idle connections are looked for: this share of the time that they may be idle.
IDLE_CHECK_DIVISOR: Final = 4
MAX_IDLE_CHECK_INTERVAL_S: Final = 5.0
# How often requests that hold memory and do not arrive are looked for, while others wait for it.
STALL_CHECK_INTERVAL_S: Final = 0.5

log = structlog.get_logger(__name__)


class SocketServer:
    """Accepts connections on several listeners and feeds their requests to one channel.

    Life: `start`, `stop_accepting`, `drain`, `close`; each may be left out, `close` is final.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        limits: NetworkLimits,
        channel: RequestChannel,
        *,
        control_plane_listener_name: str | None = None,
        inter_broker_listener_name: str | None = None,
        ssl_contexts: Mapping[str, ssl.SSLContext] | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Prepare to listen.

        `ssl_contexts` holds those of the listeners that speak TLS; `executor` reads files that
        are not in memory, the loop's own one unless given.
        """
        self._loop = channel.loop
        self._limits = limits
        self._channel = channel
        self._quota = ConnectionQuota(limits)
        # Clients must not keep brokers out; where they share the listener nothing tells them apart.
        self._exempt_listeners = (
            {control_plane_listener_name, inter_broker_listener_name}
            if len(listeners) > 1
            else set()
        )
        self._connections: dict[Processor, None] = {}
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._contended_since_s: float | None = None
        self._is_wake_scheduled = False
        self._is_accepting = True
        self._executor = executor
        self._network = self._make_network()
        contexts = ssl_contexts or {}
        self._acceptors = [
            Acceptor(
                self._loop,
                listener,
                self._network,
                self,
                is_control_plane=listener.name == control_plane_listener_name,
                ssl_context=contexts.get(listener.name),
            )
            for listener in listeners
        ]

    @property
    def bound_addresses(self) -> Mapping[str, tuple[str, int]]:
        """Host and port that each listener, by its name, is bound to."""
        return {each.listener.name: each.bound_address for each in self._acceptors}

    @property
    def metrics(self) -> NetworkMetrics:
        """What was counted so far."""
        return self._channel.metrics

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def set_limits(self, limits: NetworkLimits) -> None:
        """Let new connections be counted by `limits`; nothing else of them changes."""
        self._quota.set_limits(limits)

    async def start(self) -> None:
        """Bind every listener, or none.

        Raises:
            OSError: an address cannot be bound.
        """
        try:
            for acceptor in self._acceptors:
                await acceptor.start()
        except OSError:
            self.stop_accepting()
            raise
        for name, (host, port) in self.bound_addresses.items():
            log.info("listener.started", listener_name=name, host=host, port=port)
        self._schedule_checks()

    def stop_accepting(self) -> None:
        """Close the listening sockets and take nobody more; open connections go on."""
        self._is_accepting = False
        for acceptor in self._acceptors:
            acceptor.stop()

    async def drain(self, timeout_s: float) -> bool:
        """Read no more requests and wait until those read are answered; False if time ran out.

        Whoever holds replies back (long polls) should complete them meanwhile.
        """
        for connection in list(self._connections):
            connection.finish()
        try:
            await asyncio.wait_for(self._all_closed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def describe_open(self) -> list[str]:
        """Return what each open connection waits for."""
        return sorted(
            f"{each.listener_name} {each.client_host}: {each.obstacle}"
            for each in self._connections
        )

    async def close(self) -> None:
        """Close everything at once; replies that are not complete are cancelled."""
        self.stop_accepting()
        for timer in (self._idle_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self._connections):
            connection.abort()
        await self._all_closed.wait()
        for acceptor in self._acceptors:
            await acceptor.wait_closed()

    # What connections call.

    def on_opened(self, connection: Processor) -> str | None:
        """Take a connection into the list; or return why it must not be there."""
        if not self._is_accepting:
            # Accepted by the system just before: nobody would wait for its end.
            return "the broker stops"
        is_exempt = connection.listener_name in self._exempt_listeners
        refusal = self._quota.try_add(connection.client_host, is_exempt=is_exempt)
        if refusal is None:
            self._connections[connection] = None
            self._all_closed.clear()
        return refusal

    def on_closed(self, connection: Processor) -> None:
        """Take a connection off the list."""
        del self._connections[connection]
        self._quota.remove(connection.client_host)
        if not self._connections:
            self._all_closed.set()

    def _make_network(self) -> Network:
        pool = BufferPool()
        memory = ReceiveMemory(self._limits.receive_memory_bytes)
        memory.call_when_wakeable(self._wake_soon)
        self._channel.on_empty(pool.recycle)
        return Network(
            channel=self._channel,
            pool=pool,
            memory=memory,
            limits=self._limits,
            metrics=self._channel.metrics,
            clock=self._channel.clock,
            read_ahead=self._read_ahead,
        )

    def _read_ahead(self, read: Callable[[], None], on_end: Callable[[], None]) -> None:
        def end(future: asyncio.Future[None]) -> None:
            if not future.cancelled():
                # Taken, and left to the read that follows: it meets the same trouble.
                future.exception()
            on_end()

        self._loop.run_in_executor(self._executor, read).add_done_callback(end)

    def _wake_soon(self) -> None:
        if not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_wake_scheduled = False
        self._network.memory.wake()

    def _schedule_checks(self) -> None:
        self._idle_timer = self._loop.call_later(self._idle_interval_s, self._check_idle)
        self._stall_timer = self._loop.call_later(STALL_CHECK_INTERVAL_S, self._check_stalled)

    @property
    def _max_idle_s(self) -> float | None:
        idle_ms = self._limits.connections_max_idle_ms
        return None if idle_ms is None else idle_ms / 1000

    @property
    def _idle_interval_s(self) -> float:
        max_idle_s = self._max_idle_s
        if max_idle_s is None:
            return MAX_IDLE_CHECK_INTERVAL_S
        return min(MAX_IDLE_CHECK_INTERVAL_S, max_idle_s / IDLE_CHECK_DIVISOR)

    def _check_idle(self) -> None:
        """Drop those that are idle for too long."""
        max_idle_s = self._max_idle_s
        if max_idle_s is not None:
            for connection in list(self._connections):
                connection.drop_if_idle(max_idle_s)
        self._idle_timer = self._loop.call_later(self._idle_interval_s, self._check_idle)

    def _check_stalled(self) -> None:
        """Drop those that hold memory that others wait for, and do not go on."""
        if not self._network.memory.is_contended:
            self._contended_since_s = None
        else:
            if self._contended_since_s is None:
                self._contended_since_s = self._channel.clock()
            for connection in list(self._connections):
                connection.drop_if_stalled(self._contended_since_s)
        self._stall_timer = self._loop.call_later(STALL_CHECK_INTERVAL_S, self._check_stalled)
