"""One connection to one broker: requests out, responses in, in order. Edge: a socket.

Requests are pipelined: `send` never waits, and responses arrive in the order of the requests. All
requests of one turn of the event loop leave in one write.
Invariant: every request is settled exactly once, at the latest when the connection ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.errors import DecodeError, EncodeError, ErrorCode, WireError
from kafkawire.headers import decode_response_header, encode_request_parts
from kafkawire.schema import decode
from ottla.client.background import Alarm
from ottla.client.client_config import Address, ClientConfig
from ottla.client.errors import (
    ConnectionLostError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from ottla.client.network.frame_receiver import FrameReceiver
from ottla.client.network.version_table import VersionTable

R = TypeVar("R")
"""The message type of a response."""

MAX_CORRELATION_ID: Final = 2**31 - 1
CLOSE_TIMEOUT_S: Final = 1.0

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_EMPTY_ARRAY: Final = bytes(4)

_API_BY_NAME: Final = {api.name: api for api in APIS.values()}


def api_of(response_type: type) -> Api:
    """Return the API of a response type."""
    # By name: comparing the types would import every message.
    api = _API_BY_NAME[response_type.__name__.removesuffix("Response")]
    assert api.response is response_type
    return api


@dataclass(slots=True)
class _Pending:
    """One request that waits for its response."""

    correlation_id: int
    api: Api
    version: int
    deadline_s: float
    on_response: Callable[[Any], None]
    on_failure: Callable[[OttlaError], None]


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
        self.versions = VersionTable(())
        self._loop = loop
        self._client_id = config.client_id
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._on_lost = on_lost
        self._receiver = FrameReceiver(config.max_response_bytes, self._on_frame)
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._outgoing: list[Any] = []
        self._alarm = Alarm(loop, self._on_time)
        self._correlation_id = 0
        self._lost_because: OttlaError | None = None
        self._closed: asyncio.Future[None] = loop.create_future()
        self.last_used_s = loop.time()
        self.is_writable = True
        """False while the write buffer is full because the peer reads too slowly."""
        self.on_writable: Callable[[], None] = _ignore
        """Callback for the moment when the connection becomes writable again."""

    @property
    def in_flight_count(self) -> int:
        """Number of requests that wait for a response."""
        return len(self._pending)

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

        def on_response(response: R) -> None:
            if not future.done():
                future.set_result(response)

        def on_failure(error: OttlaError) -> None:
            if not future.done():
                future.set_exception(error)

        self.send(
            message, response_type, on_response, on_failure, timeout_s=timeout_s, version=version
        )
        return future

    def send(
        self,
        message: object,
        response_type: type[R],
        on_response: Callable[[R], None],
        on_failure: Callable[[OttlaError], None],
        *,
        timeout_s: float | None = None,
        version: int | None = None,
    ) -> None:
        """Send `message`; later exactly one of the two callbacks is called, once.

        `on_failure` gets ConnectionLostError, RequestTimedOutError or ProtocolError. If the
        content depends on the version, `message` is a function from version to message.

        Raises:
            ConnectionLostError: the connection is closed; nothing was sent, no callback follows.
            UnsupportedVersionError: client and broker share no version of this request, or only
                one that cannot carry `message`; nothing was sent, no callback follows.
        """
        api = api_of(response_type)
        used_version, correlation_id = self._write(api, version, message)
        deadline_s = self.last_used_s + (timeout_s or self._request_timeout_s)
        self._pending.append(
            _Pending(correlation_id, api, used_version, deadline_s, on_response, on_failure)
        )
        self._alarm.ring_by(deadline_s)

    def send_unanswered(self, message: object, response_type: type) -> None:
        """Send `message`, to which the broker sends no response (Produce with acks=0).

        Raises:
            ConnectionLostError, UnsupportedVersionError: as for `send`.
        """
        self._write(api_of(response_type), None, message)

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
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` received bytes; called by the event loop."""
        try:
            self._receiver.on_received(nbytes)
        except WireError as error:
            self.abort(ProtocolError(f"{self.address} sent no valid Kafka response: {error}"))

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
            self._fail_pending(self._lost_because)
        self._mark_closed()

    # Inside

    def _write(self, api: Api, version: int | None, message: object) -> tuple[int, int]:
        """Queue a request for writing and return its version and correlation id."""
        if not self.is_open:
            raise self._lost_because or _closed_error(self.address)
        used_version = self.versions.choose(api.key) if version is None else version
        correlation_id = self._correlation_id
        content = message(used_version) if callable(message) else message
        try:
            parts = encode_request_parts(
                api.key, used_version, correlation_id, self._client_id, content
            )
        except EncodeError as error:
            raise UnsupportedVersionError(
                f"{api.name} in version {used_version}, which {self.address} speaks, cannot carry "
                f"this request: {error}"
            ) from error
        self._correlation_id = (correlation_id + 1) & MAX_CORRELATION_ID
        self.last_used_s = self._loop.time()
        if not self._outgoing:
            self._loop.call_soon(self.flush)
        self._outgoing.extend(parts)
        return used_version, correlation_id

    @staticmethod
    def _write_parts(transport: asyncio.Transport, parts: list[Any]) -> None:
        # asyncio's own writelines also copies, or (3.12 and 3.13.0) never calls pause_writing, so
        # that unsent bytes would pile up without limit.
        if type(transport).__module__.startswith("asyncio."):
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def _on_frame(self, frame: memoryview) -> None:
        if self._lost_because is not None:
            return
        if not self._pending:
            raise DecodeError("a response without a request")
        waiting = self._pending[0]
        correlation_id, start = decode_response_header(waiting.api.key, waiting.version, frame)
        if correlation_id != waiting.correlation_id:
            expected = waiting.correlation_id
            raise DecodeError(f"a response with correlation id {correlation_id}, not {expected}")
        message = _decode_response(waiting.api, frame[start:], waiting.version)
        self._pending.popleft()
        waiting.on_response(message)

    def _on_time(self) -> None:
        if not self._pending:
            return
        now_s = self._loop.time()
        earliest_s = min(waiting.deadline_s for waiting in self._pending)
        if earliest_s > now_s:
            self._alarm.ring_by(earliest_s)
            return
        # Responses arrive in order, so a late one holds up all others: fail all of them.
        late = next(waiting for waiting in self._pending if waiting.deadline_s == earliest_s)
        self.abort(
            RequestTimedOutError(
                f"{self.address} sent no response to {late.api.key.name} in time: check the "
                "broker's load, or raise request_timeout_ms"
            )
        )

    def _fail_pending(self, error: OttlaError) -> None:
        pending, self._pending = self._pending, deque()
        self._outgoing.clear()
        self._alarm.cancel()
        for waiting in pending:
            waiting.on_failure(error)

    def _mark_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
            self._on_lost(self)


def _decode_response(api: Api, body: memoryview, version: int) -> Any:
    if api.key == ApiKey.API_VERSIONS and body[:2] == _UNSUPPORTED_VERSION:
        return _decode_refused_version(api, body)
    return decode(api.response, body, version)


def _decode_refused_version(api: Api, body: memoryview) -> Any:
    """Decode the refusal of an unknown ApiVersions version, which is in version 0 (KIP-511)."""
    try:
        return decode(api.response, body, 0)
    except DecodeError:
        # Some brokers encode the list of versions wrongly (librdkafka's mock): take it as empty.
        return decode(api.response, _UNSUPPORTED_VERSION + _EMPTY_ARRAY, 0)


def _closed_error(address: Address) -> ConnectionLostError:
    return ConnectionLostError(f"the connection to {address} was closed by this client")


def _ignore() -> None:
    pass
