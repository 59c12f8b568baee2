"""One connection to another broker, with one request in flight (edge).

The connection is opened when it is first needed, and again after a failure. The versions that the
other broker serves are requested once per connection, so brokers of several releases and Kafka's
brokers are supported. Invariant: after a failure no earlier request gets a response.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, TypeVar, cast

from broker.cluster.metadata_cache import Endpoint
from broker.replication.peer_buffer import PeerBuffer
from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.errors import DecodeError, EncodeError, ErrorCode
from kafkawire.headers import decode_response_header, encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.schema import decode

R = TypeVar("R")

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_FRAME_BYTES: Final = 2**31 - 1
MAX_CORRELATION_ID: Final = 2**31 - 1
API_VERSIONS_VERSION: Final = 3
SOFTWARE_NAME: Final = "ottla"
SOFTWARE_VERSION: Final = "broker"

_API_BY_REQUEST: Final = {f"{api.name}Request": api for api in APIS.values()}


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
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Open no connection yet. `timeout_ms` applies to requests without their own timeout."""
        self.endpoint = endpoint
        self._loop = loop
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._ssl_context = ssl_context
        self._lock = asyncio.Lock()
        self._link: _Link | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0

    async def request(
        self, message: object, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Send a request and return its response, a kafkawire message; see `ask`."""
        response_type = _API_BY_REQUEST[type(message).__name__].response
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

        Records in the response are valid until the next request.

        Raises:
            PeerError: no response has arrived, or an invalid one. The connection is closed.
        """
        api = _API_BY_REQUEST[type(message).__name__]
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        async with self._lock, self._failing_cleanly(limit_ms):
            link = await self._open()
            if version is None:
                version = self._choose(api.key, api.decodable[1])
            response = await self._exchange(link, api, version, message)
        assert isinstance(response, response_type)
        return response

    async def choose_version(self, key: ApiKey, newest: int) -> int:
        """Return the version up to `newest` to use with this broker.

        Raises:
            PeerError: the broker does not return its versions, or serves none of these.
        """
        async with self._lock, self._failing_cleanly(self._timeout_ms):
            await self._open()
            return self._choose(key, newest)

    def interrupt(self) -> None:
        """Close the connection; a pending request fails with a PeerError."""
        link, self._link = self._link, None
        if link is not None:
            link.abort(PeerError(f"the connection to {self.name} was given up"))

    async def close(self) -> None:
        """Close the connection and wait until its transport has finished."""
        link = self._link
        self.interrupt()
        if link is not None:
            await link.closed

    @property
    def name(self) -> str:
        """Address of the broker, for log events and errors."""
        return f"{self.endpoint.host}:{self.endpoint.port}"

    def _failing_cleanly(self, timeout_ms: int) -> _FailingCleanly:
        return _FailingCleanly(self, timeout_ms)

    async def _open(self) -> _Link:
        if self._link is not None and self._link.is_open:
            return self._link
        _, link = await self._loop.create_connection(
            lambda: _Link(self._loop, self.name),
            self.endpoint.host,
            self.endpoint.port,
            ssl=self._ssl_context,
        )
        self._link = link
        about = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        api = APIS[ApiKey.API_VERSIONS]
        response = await self._exchange(link, api, API_VERSIONS_VERSION, about)
        assert isinstance(response, ApiVersionsResponse)
        if response.error_code != ErrorCode.NONE:
            raise PeerError(f"{self.name} refuses ApiVersions with error {response.error_code}")
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }
        return link

    def _choose(self, key: ApiKey, newest: int) -> int:
        oldest = APIS[key].decodable[0]
        served = self._versions.get(key)
        if served is None or served[0] > newest or served[1] < oldest:
            raise PeerError(
                f"{self.name} serves {key.name} in versions {served}, not in {oldest}..{newest}"
            )
        return min(newest, served[1])

    async def _exchange(self, link: _Link, api: Api, version: int, message: object) -> object:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & MAX_CORRELATION_ID
        data = encode_request(api.key, version, correlation_id, self._client_id, message)
        frame = await link.exchange(data)
        response_id, start = decode_response_header(api.key, version, frame)
        if response_id != correlation_id:
            raise DecodeError(f"response to request {response_id}, expected {correlation_id}")
        response: object = decode(api.response, frame[start:], version)
        return response


class _FailingCleanly:
    """Turns every failure or timeout into a PeerError and a closed connection."""

    def __init__(self, peer: Peer, timeout_ms: int) -> None:
        self._peer = peer
        self._timeout = asyncio.timeout(timeout_ms / 1000)
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            self._peer.interrupt()
            text = f"{self._peer.name} did not respond within {self._timeout_ms} ms"
            raise PeerError(text) from None
        if error is None:
            return
        # Also when cancelled: the pending response would be taken for that of the next request.
        self._peer.interrupt()
        if isinstance(error, OSError | DecodeError | EncodeError):
            raise PeerError(f"{self._peer.name}: {error}") from error


class _Link(asyncio.BufferedProtocol):
    """One TCP connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._name = name
        self._buffer = PeerBuffer(MAX_FRAME_BYTES)
        self._response: asyncio.Future[memoryview] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, data: bytes) -> memoryview:
        """Send `data` and return the frame of the response."""
        assert self._transport is not None, "asyncio calls connection_made first"
        self._buffer.reset()
        self._response = self._loop.create_future()
        self._transport.write(data)
        return await self._response

    def abort(self, because: Exception) -> None:
        """Close the connection at once."""
        self._fail(because)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adopt the transport; called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the room for received bytes; called by the event loop."""
        return self._buffer.free

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes; called by the event loop."""
        try:
            frame = self._buffer.on_received(nbytes)
        except DecodeError as error:
            self.abort(error)
            return
        if frame is None:
            return
        response, self._response = self._response, None
        if response is None:
            self.abort(DecodeError("a response without a request"))
        elif not response.done():
            response.set_result(frame)

    def eof_received(self) -> bool:
        """Close when the peer does; called by the event loop."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request; called by the event loop."""
        self._fail(exc or PeerError(f"{self._name} closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, because: Exception) -> None:
        response, self._response = self._response, None
        if response is not None and not response.done():
            error = because if isinstance(because, OSError | DecodeError) else PeerError(because)
            response.set_exception(error)
