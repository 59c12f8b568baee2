"""All listeners of a broker and their connections (edge).

Owns the shared receive memory, the connection quota and the idle timer. Invariant: after
`close()` it holds no connection, timer or buffer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

import structlog

from broker.config.listener import Listener
from broker.network.acceptor import Acceptor
from broker.network.buffer_pool import BufferPool
from broker.network.connection_gate import NO_SECURITY, ListenerSecurity
from broker.network.connection_quota import ConnectionQuota
from broker.network.limits import NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.processor import Network, Processor
from broker.network.receive_memory import ReceiveMemory
from broker.network.request_channel import RequestChannel

# The interval between checks for idle connections is this fraction of the idle timeout.
IDLE_CHECK_DIVISOR: Final = 4
MAX_IDLE_CHECK_INTERVAL_S: Final = 5.0
# Interval between checks for incomplete requests that hold memory while other connections wait.
STALL_CHECK_INTERVAL_S: Final = 0.5

log = structlog.get_logger(__name__)


class SocketServer:
    """Accepts connections on several listeners and feeds their requests to one channel.

    Call order: `start`, `stop_accepting`, `drain`, `close`. Each is optional; `close` is final.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        limits: NetworkLimits,
        channel: RequestChannel,
        *,
        control_plane_listener_name: str | None = None,
        inter_broker_listener_name: str | None = None,
        security: Mapping[str, ListenerSecurity] | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Prepare to listen.

        `security` holds the encryption and authentication by listener name, for listeners that have
        any. `executor` reads files that are not
        in memory; the default is the loop's executor.
        """
        self._loop = channel.loop
        self._limits = limits
        self._channel = channel
        self._quota = ConnectionQuota(limits)
        # Clients must not keep brokers out. On a shared listener, brokers and clients are
        # indistinguishable.
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
        secured = security or {}
        self._acceptors = [
            Acceptor(
                self._loop,
                listener,
                self._network,
                self,
                is_control_plane=listener.name == control_plane_listener_name,
                security=secured.get(listener.name, NO_SECURITY),
            )
            for listener in listeners
        ]

    @property
    def bound_addresses(self) -> Mapping[str, tuple[str, int]]:
        """Bound host and port of each listener, by its name."""
        return {each.listener.name: each.bound_address for each in self._acceptors}

    @property
    def metrics(self) -> NetworkMetrics:
        """Metrics of the network layer."""
        return self._channel.metrics

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    @property
    def connection_counts(self) -> Counter[str]:
        """Number of open connections by the name of their listener."""
        return Counter([each.listener_name for each in self._connections])

    def set_limits(self, limits: NetworkLimits) -> None:
        """Apply the connection limits in `limits` to new connections; ignore all other limits."""
        self._quota.set_limits(limits)

    async def start(self) -> None:
        """Bind all listeners, or none.

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
        """Close the listening sockets and refuse new connections; open ones continue."""
        self._is_accepting = False
        for acceptor in self._acceptors:
            acceptor.stop()

    async def drain(self, timeout_s: float) -> bool:
        """Stop reading and wait for the responses to all requests read; False after a timeout.

        The owner of delayed replies (long polls) should complete them meanwhile.
        """
        for connection in list(self._connections):
            connection.finish()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_closed.wait()
        except TimeoutError:
            return False
        return True

    def describe_open(self) -> list[str]:
        """Return a description of the obstacle that keeps each connection open."""
        return sorted(
            f"{each.listener_name} {each.client_host}: {each.obstacle}"
            for each in self._connections
        )

    async def close(self) -> None:
        """Close all connections at once; pending replies are cancelled."""
        self.stop_accepting()
        for timer in (self._idle_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self._connections):
            connection.abort()
        await self._all_closed.wait()
        for acceptor in self._acceptors:
            await acceptor.wait_closed()

    # Called by connections.

    def admit(self, client_host: str, listener_name: str) -> str | None:
        """Count a connection before its handshake, or return the reason to refuse it."""
        refusal = self._try_add(client_host, listener_name)
        if refusal is not None:
            self.metrics.connections_refused += 1
        return refusal

    def leave(self, client_host: str) -> None:
        """Stop counting a connection that was never opened."""
        self._quota.remove(client_host)

    def on_opened(self, connection: Processor) -> str | None:
        """Add a connection to the list, or return the reason to refuse it."""
        if connection.is_counted:
            refusal = None if self._is_accepting else "the broker is stopping"
        else:
            refusal = self._try_add(connection.client_host, connection.listener_name)
        if refusal is None:
            self._connections[connection] = None
            self._all_closed.clear()
        return refusal

    def on_closed(self, connection: Processor) -> None:
        """Remove a connection from the list."""
        del self._connections[connection]
        self._quota.remove(connection.client_host)
        if not self._connections:
            self._all_closed.set()

    def _try_add(self, client_host: str, listener_name: str) -> str | None:
        if not self._is_accepting:
            # The system accepted it just before the stop; `drain` would not wait for it.
            return "the broker is stopping"
        return self._quota.try_add(client_host, is_exempt=listener_name in self._exempt_listeners)

    def _make_network(self) -> Network:
        pool = BufferPool()
        memory = ReceiveMemory(self._limits.receive_memory_bytes)
        memory.call_when_wakeable(self._wake_soon)
        self._channel.on_arenas_unused(pool.recycle)
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
                # Retrieve and ignore the error: the following read will raise it again.
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
        """Drop the connections that exceed the idle timeout."""
        max_idle_s = self._max_idle_s
        if max_idle_s is not None:
            for connection in list(self._connections):
                connection.drop_if_idle(max_idle_s)
        self._idle_timer = self._loop.call_later(self._idle_interval_s, self._check_idle)

    def _check_stalled(self) -> None:
        """Drop stalled connections that hold memory while others wait for it."""
        if not self._network.memory.is_contended:
            self._contended_since_s = None
        else:
            if self._contended_since_s is None:
                self._contended_since_s = self._channel.clock()
            for connection in list(self._connections):
                connection.drop_if_stalled(self._contended_since_s)
        self._stall_timer = self._loop.call_later(STALL_CHECK_INTERVAL_S, self._check_stalled)
