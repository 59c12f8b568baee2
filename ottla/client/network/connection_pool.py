"""The connections to all brokers: one per broker and purpose (edge).

Each purpose has its own connection because responses arrive in order: a long-polling fetch must
never hold up a produce or a metadata request.
Invariant: per (broker, purpose) at most one connection is open or being opened.
"""

import asyncio
import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkawire.ids import BrokerId
from ottla.client.client_config import Address, ClientConfig
from ottla.client.errors import BrokerUnreachableError, ClientClosedError, OttlaError
from ottla.client.network.broker_connection import Connection
from ottla.client.network.handshake import open_connection
from ottla.client.retry import Backoff

log = logging.getLogger(__name__)

MAX_IDLE_S: Final = 540.0
"""Idle time after which the client closes a connection.

Brokers close theirs after 600 s; a request sent at that moment would be lost.
"""


class Purpose(enum.Enum):
    """The kind of requests that a connection carries."""

    CONTROL = "control"
    PRODUCE = "produce"
    FETCH = "fetch"
    FETCH_BESIDE = "fetch beside a fetch that waits for records"
    JOIN = "join a group"
    TRANSACTION = "transactions"


class _Key(NamedTuple):
    broker_id: BrokerId
    purpose: Purpose


@dataclass(slots=True)
class _Opening:
    address: Address
    task: asyncio.Task[Connection]
    waiter_count: int = 0
    """Number of callers that wait for this attempt."""


class ConnectionPool:
    """Opens connections on first use, and reopens lost ones with back-off.

    `on_open` is called whenever a connection was opened or became writable, `on_failure` whenever
    one was lost or could not be opened.
    """

    def __init__(
        self,
        config: ClientConfig,
        backoff: Backoff,
        on_open: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._config = config
        self._backoff = backoff
        self._on_open = on_open
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Key, Connection] = {}
        self._retiring: set[Connection] = set()
        self._opening: dict[_Key, _Opening] = {}
        # In the order of their creation, so that a simulation repeats itself.
        self._tasks: dict[asyncio.Task[Connection], None] = {}
        self._failure_counts: dict[BrokerId, int] = {}
        self._errors: dict[tuple[BrokerId, Purpose], OttlaError] = {}
        """Errors of attempts that no caller waited for, until `take_errors`."""
        self._is_closed = False

    def ready(self, broker_id: BrokerId, purpose: Purpose, address: Address) -> Connection | None:
        """Return the open connection, if there is one; never waits."""
        key = _Key(broker_id, purpose)
        connection = self._open.get(key)
        if connection is None:
            return None
        is_stale = (
            connection.in_flight_count == 0
            and self._loop.time() - connection.last_used_s > MAX_IDLE_S
        )
        if self._loop.time() >= connection.expires_s and connection.is_open:
            del self._open[key]
            self._retiring.add(connection)
            connection.retire()
            return None
        if is_stale or connection.address != address or not connection.is_open:
            del self._open[key]
            connection.abort()
            return None
        return connection

    def begin_open(self, broker_id: BrokerId, purpose: Purpose, address: Address) -> None:
        """Start to open a connection unless an attempt is running; a callback reports its end."""
        if not self._is_closed:
            self._begin(_Key(broker_id, purpose), address)

    @property
    def open_count(self) -> int:
        """Number of open connections."""
        return sum(connection.is_open for connection in self._open.values())

    def failure_count(self, broker_id: BrokerId) -> int:
        """Return the number of failed attempts in a row to reach a broker."""
        return self._failure_counts.get(broker_id, 0)

    def take_errors(self) -> dict[tuple[BrokerId, Purpose], OttlaError]:
        """Return the errors since the last call of attempts that no caller waited for."""
        errors, self._errors = self._errors, {}
        return errors

    async def get(self, broker_id: BrokerId, purpose: Purpose, address: Address) -> Connection:
        """Return the open connection; open it first if needed.

        Raises:
            ClientClosedError: the pool was closed.
            BrokerUnreachableError: the broker cannot be reached, or moved to another address
                in the meantime.
            AuthenticationFailedError, ProtocolError: as `open_connection`.
        """
        if self._is_closed:
            raise ClientClosedError("the client is closed: make a new one")
        if (connection := self.ready(broker_id, purpose, address)) is not None:
            return connection
        opening = self._begin(_Key(broker_id, purpose), address)
        opening.waiter_count += 1
        try:
            # Not `await task`: cancelling it would fail other callers that wait for it.
            await asyncio.wait([opening.task])
        finally:
            opening.waiter_count -= 1
        if not opening.task.cancelled():
            return opening.task.result()
        if self._is_closed:
            raise ClientClosedError("the client was closed while it waited")
        raise BrokerUnreachableError(f"broker {broker_id} has moved away from {address}")

    def abandon(self, broker_id: BrokerId, purpose: Purpose) -> None:
        """Stop an attempt to open a connection, unless a caller waits for it.

        It does not count as a failure.
        """
        key = _Key(broker_id, purpose)
        opening = self._opening.get(key)
        if opening is not None and opening.waiter_count == 0:
            del self._opening[key]
            opening.task.cancel()

    async def close(self) -> None:
        """Close every connection and wait until all sockets are closed."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            # Also when this call is cancelled: nothing else closes them.
            connections = [*self._open.values(), *self._retiring]
            self._open.clear()
            for connection in connections:
                connection.begin_close()
            await asyncio.gather(*(connection.close() for connection in connections))

    def _begin(self, key: _Key, address: Address) -> _Opening:
        opening = self._opening.get(key)
        if opening is not None and opening.address != address:
            # The broker has moved. Its old address may not even refuse connections, and failures
            # there do not count for the new one.
            del self._opening[key]
            self._failure_counts.pop(key.broker_id, None)
            opening.task.cancel()
            opening = None
        if opening is None:
            name = f"open {address} for {key.purpose.value}"
            task = self._loop.create_task(self._open_one(key, address), name=name)
            self._opening[key] = opening = _Opening(address, task)
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._on_opened(key, done))
        return opening

    async def _open_one(self, key: _Key, address: Address) -> Connection:
        if failure_count := self._failure_counts.get(key.broker_id, 0):
            await asyncio.sleep(self._backoff.delay_s(failure_count))
        connection = await open_connection(
            address, self._config, lambda lost: self._on_lost(key, lost)
        )
        connection.on_writable = self._on_open
        # Stored without an await in between, so that `close` finds it.
        self._open[key] = connection
        return connection

    def _on_opened(self, key: _Key, task: asyncio.Task[Connection]) -> None:
        self._tasks.pop(task, None)
        opening = self._opening.get(key)
        if opening is not None and opening.task is not task:
            # A later attempt has replaced this one.
            opening = None
        if opening is not None:
            del self._opening[key]
        if task.cancelled() and (opening is None or self._is_closed):
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._failure_counts[key.broker_id] = self._failure_counts.get(key.broker_id, 0) + 1
            if opening is not None and opening.waiter_count == 0 and not self._is_closed:
                self._report(key, error)
        else:
            self._failure_counts.pop(key.broker_id, None)
            self._errors.pop(key, None)
        if not self._is_closed:
            (self._on_open if error is None else self._on_failure)()

    def _report(self, key: _Key, error: BaseException) -> None:
        """Log the error of an attempt, which no caller gets; keep it for `take_errors`."""
        broker_id, name = key.broker_id, key.purpose.name.lower()
        if isinstance(error, OttlaError):
            level = logging.INFO if error.retriable else logging.WARNING
            log.log(
                level, "connection.failed broker=%d purpose=%s error=%s", broker_id, name, error
            )
            self._errors[key] = error
        else:
            log.error("connection.failed broker=%d purpose=%s", broker_id, name, exc_info=error)

    def _on_lost(self, key: _Key, connection: Connection) -> None:
        self._retiring.discard(connection)
        if self._open.get(key) is connection:
            del self._open[key]
            if not self._is_closed:
                self._on_failure()
