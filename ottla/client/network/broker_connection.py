"""One connection to one broker: requests out, responses in, in order (edge).

Requests are pipelined: `send` never waits, and responses arrive in the order of the requests. All
requests of one turn of the event loop leave in one write.
Invariant: every request is settled exactly once, at the latest when the connection ends.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeVar, cast

from kafkawire.apis import ApiKey
from kafkawire.errors import MisfitError, VersionError, WireError
from kafkawire.exchange import Exchange, callbacks_of
from ottla.client.background import Alarm
from ottla.client.client_config import Address, ClientConfig
from ottla.client.errors import (
    ConfigurationError,
    ConnectionLostError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)

R = TypeVar("R")
"""The message type of a response."""

CLOSE_TIMEOUT_S: Final = 1.0
CEILINGS: Final = {
    # Produce 12 promises transactions of KIP-890 part 2, 13 names topics by id.
    ApiKey.PRODUCE: 11,
    # Later versions are for brokers.
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
}
"""Highest versions to use: later ones require features that this client does not have."""


class Connection(asyncio.BufferedProtocol):
    """A connection to a broker; `handshake.open_connection` opens it and negotiates versions."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        config: ClientConfig,
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self.address = address
        self._loop = loop
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._on_lost = on_lost
        self.exchange = Exchange[OttlaError](
            config.client_id, config.max_response_bytes, ceilings=CEILINGS
        )
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[Any] = []
        self._alarm = Alarm(loop, self._on_time)
        self._lost_because: OttlaError | None = None
        self._closed: asyncio.Future[None] = loop.create_future()
        self.last_used_s = loop.time()
        self.expires_s = inf
        """Time after which the connection is replaced, before its session ends."""
        self._is_retiring = False
        self.is_writable = True
        """False while the write buffer is full because the peer reads too slowly."""
        self.on_writable: Callable[[], None] = lambda: None
        """Callback for the moment when the connection becomes writable again."""

    @property
    def in_flight_count(self) -> int:
        """Number of requests that wait for a response."""
        return len(self.exchange.pending)

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._lost_because is None and self._transport is not None

    def request(
        self,
        message: object,
        response_type: type[R],
        *,
        timeout_s: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[R]:
        """Send `message` and return the future of its response; see `send`.

        Cancelling the future does not cancel the request: its response is read and dropped.
        """
        future: asyncio.Future[R] = self._loop.create_future()
        on_response, on_failure = callbacks_of(future)
        self.send(
            message, response_type, on_response, on_failure, timeout_s=timeout_s, version=version
        )
        return future

    def send(
        self,
        message: object,
        response_type: type[R],
        on_response: Callable[[R], None] | None = None,
        on_failure: Callable[[OttlaError], None] = lambda _: None,
        *,
        timeout_s: float | None = None,
        version: int | None = None,
    ) -> None:
        """Send `message`; later exactly one of the two callbacks is called, once.

        `on_failure` gets ConnectionLostError, RequestTimedOutError or ProtocolError. If the
        content depends on the version, `message` is a function from version to message. Without
        `on_response`, the broker must send no response (Produce with acks=0).

        Raises:
            ConnectionLostError: the connection is closed; nothing was sent, no callback follows.
            UnsupportedVersionError: client and broker share no version of this request, or only
                one that cannot carry `message`; nothing was sent, no callback follows.
            ConfigurationError: no version can carry an argument of the caller; likewise.
        """
        if not self.is_open:
            raise self._lost_because or _closed_error(self.address)
        now_s = self._loop.time()
        deadline_s = now_s + (timeout_s or self._request_timeout_s)
        try:
            parts = self.exchange.request(
                message,
                response_type,
                on_response,
                on_failure,
                version=version,
                deadline_s=deadline_s,
            )
        except VersionError as error:
            raise UnsupportedVersionError(f"{self.address}: {error}") from error
        except MisfitError as error:
            raise ConfigurationError(f"no request can carry an argument: {error}") from error
        self.last_used_s = now_s
        if not self._outgoing:
            self._loop.call_soon(self.flush)
        self._outgoing.extend(parts)
        if on_response is not None:
            self._alarm.ring_by(deadline_s)

    def choose_version(self, api_key: ApiKey, newest: int | None = None) -> int:
        """Return the version of requests that leave it open, or the highest up to `newest`.

        Raises:
            UnsupportedVersionError: client and broker share no version of this request.
        """
        try:
            return self.exchange.choose_version(api_key, newest)
        except VersionError as error:
            raise UnsupportedVersionError(f"{self.address}: {error}") from error

    def may_use(self, api_key: ApiKey, version: int) -> bool:
        """Whether client and broker share this version of a request, or a later one."""
        try:
            return self.exchange.choose_version(api_key) >= version
        except VersionError:
            return False

    def expire_after(self, lifetime_s: float) -> None:
        """Have the connection replaced after this time."""
        self.expires_s = self._loop.time() + lifetime_s

    def retire(self) -> None:
        """Close the connection once no request waits for a response."""
        if self.in_flight_count == 0:
            self.begin_close()
        else:
            self._is_retiring = True

    def flush(self) -> None:
        """Write queued requests now, not only at the end of this turn of the event loop."""
        parts, self._outgoing = self._outgoing, []
        if parts and self._transport is not None and self._lost_because is None:
            self._write_parts(self._transport, parts)

    def abort(self, because: OttlaError | None = None) -> None:
        """Abort the connection; every pending request fails with `because`."""
        if self._lost_because is None:
            self._lost_because = because or _closed_error(self.address)
            self._fail_pending(self._lost_because)
            if self._transport is not None:
                self._transport.abort()
            else:
                self._mark_closed()

    def begin_close(self) -> None:
        """Write queued requests, then close the connection; pending requests fail now."""
        if self._transport is None or self._lost_because is not None:
            self.abort()
            return
        self.flush()
        self._lost_because = _closed_error(self.address)
        self._fail_pending(self._lost_because)
        self._transport.close()

    async def close(self) -> None:
        """Close the connection and wait until the transport is closed.

        If the peer reads no more, the transport is aborted after `CLOSE_TIMEOUT_S`, or at once if
        this call is cancelled.
        """
        self.begin_close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.shield(self._closed)
        except TimeoutError:
            pass
        finally:
            # Only while it is open: after that asyncio's transport raises if it had unsent bytes.
            if self._transport is not None and not self._closed.done():
                self._transport.abort()
            await asyncio.shield(self._closed)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adopt the transport; called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)
        if self._lost_because is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for received bytes; called by the event loop."""
        return self.exchange.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` received bytes; called by the event loop."""
        try:
            self.exchange.receive(nbytes)
        except WireError as error:
            self.abort(ProtocolError(f"{self.address} sent no valid Kafka response: {error}"))
        if self._is_retiring and not self.exchange.pending:
            self.begin_close()

    def eof_received(self) -> bool:
        """Close when the peer does; called by the event loop."""
        return False

    def pause_writing(self) -> None:
        """Mark the connection as not writable; called by the event loop."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Mark the connection as writable again; called by the event loop."""
        self.is_writable = True
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all pending requests; called by the event loop."""
        if self._lost_because is None:
            reason = str(exc) if exc else "closed by the broker"
            self._lost_because = ConnectionLostError(
                f"the connection to {self.address} was lost: {reason}. Is the broker running?"
            )
            # With TLS 1.3 a broker refuses a client after the client's part of the handshake.
            self._lost_because.__cause__ = exc
            self._fail_pending(self._lost_because)
        self._mark_closed()

    # Inside

    @staticmethod
    def _write_parts(transport: asyncio.Transport, parts: list[Any]) -> None:
        # asyncio's own writelines also copies, or (3.12 and 3.13.0) never calls pause_writing, so
        # that unsent bytes would pile up without limit.
        if type(transport).__module__.startswith("asyncio."):
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def _on_time(self) -> None:
        if not self.exchange.pending:
            return
        late = min(self.exchange.pending, key=lambda waiting: waiting.deadline_s)
        if late.deadline_s > self._loop.time():
            self._alarm.ring_by(late.deadline_s)
            return
        # Responses arrive in order, so a late one holds up all others: fail all of them.
        self.abort(
            RequestTimedOutError(
                f"{self.address} sent no response to {late.api.key.name} in time: check the "
                "broker's load, or raise request_timeout_ms"
            )
        )

    def _fail_pending(self, error: OttlaError) -> None:
        self._outgoing.clear()
        self._alarm.cancel()
        self.exchange.fail(error)

    def _mark_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
            self._on_lost(self)


def _closed_error(address: Address) -> ConnectionLostError:
    return ConnectionLostError(f"the connection to {address} was closed by this client")
