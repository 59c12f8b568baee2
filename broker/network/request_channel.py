"""The queue between the connections and the handlers, and the pump that empties it (edge).

Connections submit whole requests. In each turn of the loop the pump hands a batch to the router:
first the control-plane requests, then the short ones, then as many long ones as time allows, round
robin over the connections. Then each connection with complete responses writes once.

A request is long if its body is, or if its response may be: a few bytes can ask for all configs.

Invariants:
- Requests of one connection are handled in order, except control-plane requests.
- At most `queued_max_requests` wait. Control-plane requests do not count, nor do requests behind
  one that waits for its response; their connections bound them.
- While a request waits for its response, or a large response is not sent, no other request of its
  connection is handled. Exceptions: produce requests follow each other, and one fetch another.
- A handler that fails closes only its own connection.
- No connection sends inside a handler.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import structlog

from broker.network.limits import CONTROL_PLANE_APIS, NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.receive_memory import ReceiveMemoryExhaustedError
from broker.network.reply import Reply
from broker.network.request import NOT_HANDLED, Connection, ConnectionQueue, Request
from broker.network.request_timing import FREQUENT_APIS, UNTIMED_COUNT, RequestTiming
from kafkawire.apis import ApiKey
from kafkawire.units import KIB, MIB

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
# The responses to these requests may hold much more than the request names.
LARGE_RESPONSE_APIS: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ELECT_LEADERS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    }
)
# By API key: a look-up in a set takes several times as long.
_IS_CONTROL: Final = [key in CONTROL_PLANE_APIS for key in range(max(ApiKey) + 1)]
_IS_LARGE: Final = [key in LARGE_RESPONSE_APIS for key in range(max(ApiKey) + 1)]
# Total size of the requests of a connection that are handled before their responses are sent. One
# whose response is pending or may be large weighs more than the limit by itself.
MAX_UNSENT_BYTES: Final = 16 * KIB
BUSY_WEIGHT: Final = 1 << 40
TOO_LATE: Final = "an earlier request was refused"
# Bound once, because member lookup in an enum runs Python code.
_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH

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
        # Connections with long requests that are not blocked.
        self._long_line: deque[ConnectionQueue] = deque()
        self._control_requests: deque[Request] = deque()
        self._ready: deque[ConnectionQueue] = deque()
        # Connections that wait for room, first come, first served, and for the opening.
        self._waiting: OrderedDict[ConnectionQueue, None] = OrderedDict()
        self._early: dict[ConnectionQueue, None] = {}
        self._on_arenas_unused: list[Callable[[], None]] = []
        self._is_scheduled = False
        self.is_open = is_open
        # State of the current turn: the connection that an error would close, and the limits left.
        self._current: ConnectionQueue | None = None
        self._batch_bytes_left = 0
        self._had_long = False
        # Number of requests of each frequent API before the next one that is timed in its parts.
        self._untimed_left = dict.fromkeys(FREQUENT_APIS, 0)

    def open(self) -> None:
        """Accept all requests, first from the connections that called `wait_for_opening`."""
        self.is_open = True
        self._waiting.update(self._early)
        self._early.clear()
        self._schedule()

    def connect(self, connection: Connection, *, is_control_plane: bool = False) -> ConnectionQueue:
        """Return a place for `connection`, which it passes with each call until `close`."""
        queue = ConnectionQueue(connection, is_control_plane=is_control_plane)
        queue.wake = partial(self.mark_ready, queue)
        return queue

    @property
    def is_empty(self) -> bool:
        """Whether no request waits."""
        return not self._requests and not self._control_requests and not self._long_line

    def submit(self, requests: Iterable[Request]) -> None:
        """Queue requests; their buffers must stay untouched until their handlers have returned."""
        short_requests, is_open = self._requests, self.is_open
        for request in requests:
            queue = request.queue
            api_key = request.header.api_key
            assert is_open or api_key in EARLY_APIS, "the request must wait outside the arenas"
            if _IS_CONTROL[api_key] or queue.is_control_plane:
                self._control_requests.append(request)
                continue
            if queue.is_parked:
                self._add_parked(queue, request, len(queue.waiting))
                continue
            self.free_count -= 1
            if queue.waiting:
                # A request must not overtake a long one of its connection.
                queue.waiting.append(request)
            elif len(request.body) > LONG_REQUEST_BYTES or _IS_LARGE[api_key]:
                queue.waiting.append(request)
                self._long_line.append(queue)
            else:
                short_requests.append(request)
        self._schedule()

    def mark_ready(self, queue: ConnectionQueue) -> None:
        """Let the connection send at the end of this turn or in the next one."""
        if not queue.is_ready:
            queue.is_ready = True
            self._ready.append(queue)
            self._schedule()

    def on_sent(self, queue: ConnectionQueue) -> None:
        """Handle further requests of a connection that has sent the responses to all earlier ones.

        Without this call, the requests that wait for it would wait until the connection closes.
        """
        if queue.unsent_weight:
            queue.unsent_weight = 0
            queue.busy_with = None
            queue.stops_reading = False
            if queue.is_parked:
                self._unpark(queue)

    def close(self, queue: ConnectionQueue) -> None:
        """Drop the queued long requests of a closed connection, unless they hold records.

        Received records are still appended: a producer with acks=0 closes its connection without
        waiting for a response. Replies that are pending then are cancelled.
        """
        queue.is_closed = True
        dropped = [each for each in queue.waiting if not _is_produce(each)]
        queue.waiting[:] = [each for each in queue.waiting if _is_produce(each)]
        queue.deferred_count = 0
        for request in dropped:
            request.give_back()
        if queue.is_parked:
            self._unpark(queue)
        else:
            self.free_count += len(dropped)
        self._waiting.pop(queue, None)
        self._early.pop(queue, None)

    def wait_for_room(self, queue: ConnectionQueue) -> None:
        """Call `on_room` of the connection once, when there is room again."""
        self._waiting[queue] = None

    def wait_for_opening(self, queue: ConnectionQueue) -> None:
        """Call `on_room` of the connection once, when all requests may be submitted."""
        self._early[queue] = None

    def on_arenas_unused(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each batch that leaves no request in the arenas."""
        self._on_arenas_unused.append(callback)

    def attempt(self, queue: ConnectionQueue, step: Callable[[], None]) -> None:
        """Run `step` for a connection; an error in it, which is a bug, closes only that one.

        A failed step runs again and continues with the item after the failed one.
        """
        outer, self._current = self._current, queue
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
        assert self._current is not None
        connection = self._current.connection
        self.metrics.handler_failures += 1
        log.exception("connection.failed", client_host=connection.client_host)
        connection.drop("internal error of the broker")

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._pump)

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
        if not self._requests and not self._control_requests and self._keep_long():
            for callback in self._on_arenas_unused:
                callback()
        while self._waiting and self.free_count > 0:
            self._current = queue = self._waiting.popitem(last=False)[0]
            queue.connection.on_room()

    def _send_batch(self) -> None:
        metrics, ready = self.metrics, self._ready
        end_bytes = metrics.bytes_out + SEND_BYTES
        # Connections that become ready again meanwhile send in the next turn.
        for _ in range(len(ready)):
            self._current = queue = ready.popleft()
            queue.is_ready = False
            queue.connection.send_ready()
            if metrics.bytes_out > end_bytes:
                break

    def _handle_batch(self) -> None:
        control_requests, requests = self._control_requests, self._requests
        while self._batch_bytes_left > 0:
            if control_requests:
                self._handle_one(control_requests.popleft())
            elif requests:
                request = requests.popleft()
                queue = request.queue
                is_busy = queue.unsent_weight > MAX_UNSENT_BYTES and not _may_handle(request)
                if is_busy or queue.deferred_count or queue.is_refused:
                    self._defer(queue, request)
                else:
                    self.free_count += 1
                    self._handle_one(request)
            else:
                break
        # A long request must not overtake a short one of its connection.
        if self._long_line and not self._had_long and not requests:
            self._had_long = True
            self._handle_long()

    def _handle_long(self) -> None:
        """Handle one long request, and more until this turn has used up its time."""
        line, clock = self._long_line, self.clock
        end_s = clock() + LONG_REQUESTS_S
        while line:
            queue = line.popleft()
            if not queue.waiting:
                # The connection was closed meanwhile.
                continue
            if not _may_handle(queue.waiting[0]):
                self._park(queue)
                continue
            request = queue.waiting.pop(0)
            queue.deferred_count = max(0, queue.deferred_count - 1)
            self.free_count += 1
            try:
                self._handle_one(request)
            finally:
                queue.stops_reading = _stops_reading(request)
                if queue.waiting:
                    line.append(queue)
            if self._batch_bytes_left <= 0 or clock() >= end_s:
                break

    def _keep_long(self) -> bool:
        """Keep the requests in the long line outside the arenas; return False without the memory.

        A line that lasts for several turns would fill all arenas, and connections would be read in
        small pieces: with 800 requests of 16 KiB in flight, each would take twice the time.
        """
        try:
            for queue in self._long_line:
                for request in queue.waiting:
                    _keep(request)
        except ReceiveMemoryExhaustedError:
            return False
        return True

    def _defer(self, queue: ConnectionQueue, request: Request) -> None:
        """Let a short request wait, behind its predecessors and before the long ones."""
        if queue.is_parked or queue.is_refused:
            self.free_count += 1
            self._add_parked(queue, request, queue.deferred_count)
        else:
            queue.waiting.insert(queue.deferred_count, request)
            if len(queue.waiting) == 1:
                self._park(queue)
        queue.deferred_count = min(queue.deferred_count + 1, len(queue.waiting))

    def _add_parked(self, queue: ConnectionQueue, request: Request, position: int) -> None:
        if queue.is_refused:
            _drop(request, TOO_LATE)
        else:
            queue.waiting.insert(position, request)
            self._keep_or_refuse(queue, position)

    def _park(self, queue: ConnectionQueue) -> None:
        """Handle no further request of the connection until its responses are sent.

        The objects of a decoded request take some hundred times its size. With thousands of waiting
        requests, each run of the garbage collector would stop the loop for a second. Parked
        requests do not count against the limit of the queue. Other connections reuse the arena
        meanwhile, so their bodies are kept outside it, or refused if there is no memory for them.
        """
        queue.is_parked = True
        self.free_count += len(queue.waiting)
        self._keep_or_refuse(queue, 0)

    def _unpark(self, queue: ConnectionQueue) -> None:
        queue.is_parked = False
        if queue.waiting:
            self.free_count -= len(queue.waiting)
            self._long_line.append(queue)
            self._schedule()

    def _keep_or_refuse(self, queue: ConnectionQueue, start: int) -> None:
        """Keep the parked requests from `start` on, or close after the responses to the others."""
        for position, request in enumerate(queue.waiting[start:], start):
            try:
                _keep(request)
            except ReceiveMemoryExhaustedError as error:
                self._refuse(queue, position, str(error))
                break

    def _refuse(self, queue: ConnectionQueue, position: int, reason: str) -> None:
        """Drop the parked requests from `position` on; close after the responses to the others."""
        refused = queue.waiting[position:]
        del queue.waiting[position:]
        queue.deferred_count = min(queue.deferred_count, position)
        for request in refused:
            _drop(request, reason)
        queue.is_refused = True
        queue.connection.refuse_input(reason)

    def _handle_one(self, request: Request) -> None:
        self._batch_bytes_left -= len(request.body)
        self._current = queue = request.queue
        api_key = request.header.api_key
        untimed_left = self._untimed_left.get(api_key)
        if untimed_left:
            self._untimed_left[api_key] = untimed_left - 1
        else:
            request.timing = RequestTiming(self.clock())
            if untimed_left is not None:
                self._untimed_left[api_key] = UNTIMED_COUNT
        try:
            request.reply = reply = self._handle(request)
        finally:
            if request.release is not None:
                request.give_back()
        timing = request.timing
        if timing is not None:
            timing.returned_at_s = timing.completed_at_s = self.clock()
        if reply.is_done:
            queue.unsent_weight += BUSY_WEIGHT if _IS_LARGE[api_key] else request.size_bytes
            if not queue.is_ready:
                queue.is_ready = True
                self._ready.append(queue)
            return
        if queue.is_closed:
            reply.cancel()
        elif timing is None:
            reply.on_done(queue.wake)
        else:
            reply.on_done(partial(self._complete_timed, timing, queue))
        queue.unsent_weight += BUSY_WEIGHT
        queue.busy_with = api_key

    def _complete_timed(self, timing: RequestTiming, queue: ConnectionQueue) -> None:
        timing.completed_at_s = self.clock()
        self.mark_ready(queue)


def _may_handle(request: Request) -> bool:
    """Whether the next request of a connection may be handled before earlier responses are sent.

    A produce request may: its records are then on disk, and the waiting operation is small. So may
    a fetch after one other: the next one of a follower's session makes the waiting one respond.
    """
    queue, api_key = request.queue, request.header.api_key
    if queue.unsent_weight <= MAX_UNSENT_BYTES or queue.is_closed:
        return True
    if api_key == _FETCH:
        is_second = queue.unsent_weight <= BUSY_WEIGHT + MAX_UNSENT_BYTES
        return is_second and queue.busy_with == _FETCH
    return api_key == _PRODUCE and queue.busy_with in (None, _PRODUCE)


def _drop(request: Request, reason: str) -> None:
    """Drop a request; its connection closes after the responses to the earlier ones."""
    request.give_back()
    request.reply = Reply.close(reason)


def _stops_reading(request: Request) -> bool:
    """Whether the connection of a handled long request is not read until the response is sent."""
    if request.reply is NOT_HANDLED or request.reply.is_done or request.reply.cancelled:
        return False
    is_long = request.size_bytes > LONG_REQUEST_BYTES
    return is_long and request.header.api_key not in (_PRODUCE, _FETCH)


def _keep(request: Request) -> None:
    """Keep a request that must wait outside the arenas, unless it has its own buffer.

    Raises:
        ReceiveMemoryExhaustedError: there is no memory for the copy.
    """
    if request.release is None:
        request.connection.keep(request)


def _is_produce(request: Request) -> bool:
    return request.header.api_key == _PRODUCE
