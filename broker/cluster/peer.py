"""One connection to another broker, with one request in flight (edge).

The connection is opened when it is first needed, and again after a failure. The versions that the
other broker serves are requested once per connection, so brokers of several releases and Kafka's
brokers are supported. Invariant: after a failure no earlier request gets a response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from broker.cluster.metadata_cache import Endpoint
from broker.cluster.peer_security import PeerSecurity
from kafkawire.address import check_address
from kafkawire.apis import APIS, ApiKey, api_of
from kafkawire.errors import ErrorCode, WireError
from kafkawire.exchange import Exchange, callbacks_of
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

R = TypeVar("R")

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_FRAME_BYTES: Final = 2**31 - 1
SOFTWARE_NAME: Final = "ottla"
SOFTWARE_VERSION: Final = "broker"


class PeerError(OSError):
    """Another broker is unreachable, silent or sends an invalid response; retry later."""


class Peer:
    """A connection to the broker at `endpoint`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        loop: asyncio.AbstractEventLoop,
        client_id: str,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        security: PeerSecurity | None = None,
    ) -> None:
        """Open no connection yet. `timeout_ms` applies to requests without their own timeout.

        Without `security` the connection is plain.
        """
        self.endpoint = endpoint
        self._loop = loop
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._lock = asyncio.Lock()
        self._link: _Link | None = None
        self._is_closed = False

    async def request(
        self, message: object, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return its response, a kafkawire message; see `ask`."""
        response_type = api_of(type(message)).response
        return await self.ask(message, response_type, version=version, timeout_ms=timeout_ms)

    async def ask(
        self,
        message: object,
        response_type: type[R],
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Send a request and return its response, in the newest version of both unless given.


        Raises:
            PeerError: no response has arrived, or an invalid one. The connection is closed.
        """
        return await self._use(lambda link: link.ask(message, response_type, version), timeout_ms)

    async def choose_version(self, key: ApiKey, newest: int | None = None) -> int:
        """Return the version, at most `newest`, to use with this broker.

        Raises:
            PeerError: the broker does not return its versions, or serves none of these.
        """
        link = self._link
        if link is not None and link.is_open and not self._lock.locked():
            # The lock and the time limit of `_use` would take 4 us of each fetch of a follower.
            with suppress(WireError):
                return link.exchange.choose_version(key, newest)

        async def choose(link: _Link) -> int:
            return link.exchange.choose_version(key, newest)

        return await self._use(choose)

    def interrupt(self) -> None:
        """Close the connection; a pending request fails with a PeerError."""
        link, self._link = self._link, None
        if link is not None:
            link.abort(PeerError("the connection was given up"))

    async def close(self) -> None:
        """Close the connection for good, and wait until its transport has finished."""
        self._is_closed = True
        link = self._link
        self.interrupt()
        if link is not None:
            await link.closed

    @property
    def name(self) -> str:
        """Address of the broker, for log events and errors."""
        return f"{self.endpoint.host}:{self.endpoint.port}"

    async def _use(self, work: Callable[[_Link], Awaitable[R]], timeout_ms: int | None = None) -> R:
        """Do `work`; a failure or timeout closes the connection and becomes a PeerError."""
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        async with self._lock:
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    return await work(await self._open())
            except BaseException as error:
                # Also when cancelled: the pending response would be taken for that of the next
                # request.
                self.interrupt()
                if isinstance(error, OSError | WireError):
                    reason = str(error) or f"no response within {limit_ms} ms"
                    raise PeerError(f"{self.name}: {reason}") from error
                raise

    async def _open(self) -> _Link:
        if self._link is not None and self._link.is_open:
            if not self._link.is_expired:
                return self._link
            self.interrupt()
        self._link = link = await self._connect()
        if self._is_closed:
            raise PeerError("the connection was closed")
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        version: int | None = APIS[ApiKey.API_VERSIONS].decodable[1]
        while version is not None:
            response = await link.ask(request, ApiVersionsResponse, version)
            version = link.exchange.negotiate(response, version)
        if response.error_code != ErrorCode.NONE:
            raise PeerError(f"ApiVersions was refused with error {response.error_code}")
        if self._security is not None:
            link.expires_at_s = await self._security.log_in(link.ask, self._loop)
        return link

    async def _connect(self) -> _Link:
        host, port = self.endpoint.host, self.endpoint.port
        # A registration may contain any text and number.
        check_address(host, port)
        _, link = await self._loop.create_connection(
            lambda: _Link(self._loop, self._client_id),
            host,
            port,
            ssl=self._security.tls if self._security else None,
        )
        return link


class _Link(asyncio.BufferedProtocol):
    """One TCP connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client_id: str) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self.exchange = Exchange[Exception](client_id, MAX_FRAME_BYTES)
        self.expires_at_s: float | None = None
        self._loop = loop
        self._transport: asyncio.Transport | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the login is about to expire."""
        return self.expires_at_s is not None and self._loop.time() >= self.expires_at_s

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, message: object, response_type: type[R], version: int | None) -> R:
        """Send a request and return its response."""
        assert self._transport is not None, "asyncio calls connection_made first"
        future: asyncio.Future[R] = self._loop.create_future()
        parts: list[Any] = self.exchange.request(
            message, response_type, *callbacks_of(future), version=version
        )
        self._transport.write(b"".join(parts))
        return await future

    def abort(self, because: Exception) -> None:
        """Close the connection at once."""
        self.exchange.fail(because)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adopt the transport; called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the room for received bytes; called by the event loop."""
        return self.exchange.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes; called by the event loop."""
        try:
            self.exchange.receive(nbytes)
        except WireError as error:
            self.abort(error)

    def eof_received(self) -> bool:
        """Close when the peer does; called by the event loop."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request; called by the event loop."""
        self.exchange.fail(exc or PeerError("the broker closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)
