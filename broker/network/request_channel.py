"""The queue between the connections and the handlers, and the pump that empties it (edge).

Connections submit whole requests. In each turn of the loop the pump hands a batch to the router:
first the control-plane requests, then the short ones, then as many long ones as time allows, round
robin over the connections. Then each connection with complete responses writes once.

Invariants:
- Requests of one connection are handled in order, except control-plane requests.
- At most `queued_max_requests` wait. Control-plane requests do not count; their connections bound
  them.
- While a long request waits for its response, no other long request of its connection is handled,
  unless the request produces records.
- A handler that fails closes only its own connection.
- No connection sends inside a handler.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from broker.network.limits import CONTROL_PLANE_APIS, NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.reply import Reply
from broker.network.request import NOT_HANDLED, Request, ServedConnection
from kafkawire.apis import ApiKey
from kafkawire.units import KIB, MIB

__all__ = ["Request", "RequestChannel", "ServedConnection"]

# APIs served before the broker is ready: the controller's, and the handshake before them.
EARLY_APIS: Final = CONTROL_PLANE_APIS | {ApiKey.API_VERSIONS}
# Request bytes handled, and response bytes sent, in one turn of the loop: a few milliseconds of
# work, so that timers and sockets get their turn.
BATCH_BYTES: Final = 8 * MIB
SEND_BYTES: Final = 32 * MIB
# A larger request is long. Short requests take precedence over long ones, so that a short request
# waits for at most one long request, and a long one for at most one of each other connection.
LONG_REQUEST_BYTES: Final = 4 * KIB
# A turn starts no further long request after this time.
LONG_REQUESTS_S: Final = 0.01

log = structlog.get_logger(__name__)


class RequestChannel:
    """Bounded queue of requests, emptied in batches."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Request], Reply],
        limits: NetworkLimits,
        metrics: NetworkMetrics | None = None,
        clock: Callable[[], float] | None = None,
        *,
        is_open: bool = True,
    ) -> None:
        """Call `handle` for each request. `clock` returns seconds; the default is the loop's time.

        With `is_open=False`, only `EARLY_APIS` may be submitted until `open` is called.
        """
        self.metrics = metrics or NetworkMetrics()
        self.loop = loop
        self.clock = clock or loop.time
        self._handle = handle
        self._max_count = limits.queued_max_requests
        # Number of requests that may still be submitted.
        self.free_count = self._max_count
        self._requests: deque[Request] = deque()
        # Connections with long requests.
        self._long_line: deque[ServedConnection] = deque()
        self._control_requests: deque[Request] = deque()
        self._ready: deque[ServedConnection] = deque()
        self._waiting: deque[ServedConnection] = deque()
        self._on_empty: list[Callable[[], None]] = []
        self._is_scheduled = False
        self.is_open = is_open
        self._early: list[ServedConnection] = []
        # State of the current turn: the connection that an error would close, and the limits left.
        self._current: ServedConnection | None = None
        self._batch_bytes_left = 0
        self._had_long = False

    def open(self) -> None:
        """Accept all requests, first from the connections that called `wait_for_opening`."""
        self.is_open = True
        self._waiting.extend(self._early)
        self._early.clear()
        self.submit(())

    def wait_for_opening(self, connection: ServedConnection) -> None:
        """Call `connection.on_room` once, when all requests may be submitted."""
        self._early.append(connection)

    @property
    def is_empty(self) -> bool:
        """Whether no request waits."""
        return not self._requests and not self._control_requests and not self._long_line

    def submit(self, requests: Iterable[Request]) -> None:
        """Queue requests; their buffers must stay untouched until their handlers have returned."""
        queue, is_open = self._requests, self.is_open
        for request in requests:
            api_key = request.header.api_key
            assert is_open or api_key in EARLY_APIS, "the request must wait outside the arenas"
            connection = request.connection
            if api_key in CONTROL_PLANE_APIS or connection.is_control_plane:
                self._control_requests.append(request)
                continue
            self.free_count -= 1
            if connection.long_requests:
                # A request must not overtake a long one of its connection.
                connection.long_requests.append(request)
            elif len(request.body) > LONG_REQUEST_BYTES:
                connection.long_requests.append(request)
                self._long_line.append(connection)
            else:
                queue.append(request)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._pump)

    def mark_ready(self, connection: ServedConnection) -> None:
        """Let `connection` send at the end of this turn or in the next one."""
        blocking = connection.blocking_reply
        if blocking is not None and blocking.is_done:
            self._unblock(connection)
        if not connection.is_ready:
            connection.is_ready = True
            self._ready.append(connection)
            if not self._is_scheduled:
                self._is_scheduled = True
                self.loop.call_soon(self._pump)

    def forget(self, connection: ServedConnection) -> None:
        """Drop the queued long requests of a closed connection, unless they hold records.

        Received records are still appended: a producer with acks=0 closes its connection without
        waiting for a response.
        """
        kept = [each for each in connection.long_requests if _is_produce(each)]
        dropped = [each for each in connection.long_requests if not _is_produce(each)]
        connection.long_requests[:] = kept
        for request in dropped:
            request.give_back()
        if connection.blocking_reply is None:
            self.free_count += len(dropped)
        else:
            self._unblock(connection)

    def wait_for_room(self, connection: ServedConnection) -> None:
        """Call `connection.on_room` once, when there is room again; first come, first served."""
        self._waiting.append(connection)

    def on_empty(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each batch that leaves the queue empty."""
        self._on_empty.append(callback)

    def attempt(self, connection: ServedConnection, step: Callable[[], None]) -> None:
        """Run `step` for `connection`; an error in it, which is a bug, closes only `connection`.

        A failed step runs again and continues with the item after the failed one.
        """
        outer, self._current = self._current, connection
        self._run(step)
        self._current = outer

    def _run(self, step: Callable[[], None]) -> None:
        """Run a step until it ends without an error.

        The step must take each item off its queue before it handles the item.
        """
        while True:
            try:
                step()
            except Exception:
                self._fail_current()
            else:
                break

    def _fail_current(self) -> None:
        connection = self._current
        assert connection is not None
        self.metrics.handler_failures += 1
        log.exception("connection.failed", client_host=connection.client_host)
        connection.drop("internal error of the broker")

    def _pump(self) -> None:
        """Handle a batch, then let each ready connection send once."""
        # The flag stays set until the end: replies that handlers complete are sent in this turn.
        self._batch_bytes_left = BATCH_BYTES
        self._had_long = False
        self._run(self._do_turn)
        self.metrics.queue_length = self._max_count - self.free_count
        self._current = None
        self._is_scheduled = bool(self._ready) or not self.is_empty
        if self._is_scheduled:
            self.loop.call_soon(self._pump)

    def _do_turn(self) -> None:
        self._handle_batch()
        self._send_batch()
        if self.is_empty:
            for callback in self._on_empty:
                callback()
        while self._waiting and self.free_count > 0:
            self._current = connection = self._waiting.popleft()
            connection.on_room()

    def _send_batch(self) -> None:
        metrics, ready = self.metrics, self._ready
        end_bytes = metrics.bytes_out + SEND_BYTES
        # Connections that become ready again meanwhile send in the next turn.
        for _ in range(len(ready)):
            self._current = connection = ready.popleft()
            connection.is_ready = False
            connection.send_ready()
            if metrics.bytes_out > end_bytes:
                break

    def _handle_batch(self) -> None:
        control_requests, requests = self._control_requests, self._requests
        while self._batch_bytes_left > 0:
            if control_requests:
                self._handle_one(control_requests.popleft())
            elif requests:
                self.free_count += 1
                self._handle_one(requests.popleft())
            else:
                break
        if self._long_line and not self._had_long:
            self._had_long = True
            self._handle_long()

    def _handle_long(self) -> None:
        """Handle one long request, and more until this turn has used up its time."""
        line, clock = self._long_line, self.clock
        end_s = clock() + LONG_REQUESTS_S
        while line:
            connection = line.popleft()
            if not connection.long_requests:
                # The connection was closed meanwhile.
                continue
            request = connection.long_requests.pop(0)
            self.free_count += 1
            try:
                self._handle_one(request)
            finally:
                if _is_blocking(request):
                    self._block(connection, request.reply)
                elif connection.long_requests:
                    line.append(connection)
            if self._batch_bytes_left <= 0 or clock() >= end_s:
                break

    def _block(self, connection: ServedConnection, reply: Reply) -> None:
        """Handle no further long request of `connection` until `reply` is complete.

        The objects of a decoded request take some hundred times its size. With thousands of waiting
        requests, each run of the garbage collector would stop the loop for a second. Blocked
        requests do not count against the limit of the queue.
        """
        connection.blocking_reply = reply
        self.free_count += len(connection.long_requests)
        for request in connection.long_requests:
            if request.release is None:
                # Other connections reuse the arena meanwhile.
                request.body = memoryview(bytearray(request.body))

    def _unblock(self, connection: ServedConnection) -> None:
        connection.blocking_reply = None
        if connection.long_requests:
            self.free_count -= len(connection.long_requests)
            self._long_line.append(connection)

    def _handle_one(self, request: Request) -> None:
        self._batch_bytes_left -= len(request.body)
        self._current = connection = request.connection
        try:
            request.reply = reply = self._handle(request)
        finally:
            if request.release is not None:
                request.give_back()
        if not reply.is_done:
            connection.on_pending(reply)
        elif not connection.is_ready:
            connection.is_ready = True
            self._ready.append(connection)


def _is_blocking(request: Request) -> bool:
    """Whether a handled long request blocks the next one of its connection.

    A produce request does not: its records are on disk, and the waiting operation is small. Nor
    does a fetch: the next one of a follower's session makes the waiting one respond.
    """
    reply = request.reply
    if reply is NOT_HANDLED or reply.is_done or reply.cancelled:
        return False
    is_long = request.size_bytes > LONG_REQUEST_BYTES
    return is_long and request.header.api_key not in (ApiKey.PRODUCE, ApiKey.FETCH)


def _is_produce(request: Request) -> bool:
    return request.header.api_key == ApiKey.PRODUCE
