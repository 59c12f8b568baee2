"""One connection to another broker: a request out, its answer in, then the next (edge).

The connection is opened when it is first needed, and again after a failure. Which versions the
other broker serves is asked once per connection, so that brokers of several releases, and Kafka's
own, can be spoken to. Invariant: after a failure nothing that was sent before is answered.
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
    """Another broker cannot be reached, does not answer, or not as it should; try again later."""


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
        """Open nothing yet; `timeout_ms` is for requests that name none."""
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
        """Send a request and return its answer, a message of kafkawire; as `ask`."""
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
        """Send a request and return its answer, in the newest version of both unless given.

        What the answer holds as records is valid until the next request.

        Raises:
            PeerError: no answer has come, or none that can be read. The connection is closed.
        """
        api = _API_BY_REQUEST[type(message).__name__]
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        async with self._lock, self._failing_well(limit_ms):
            link = await self._open()
            if version is None:
                version = self._choose(api.key, api.decodable[1])
            answer = await self._exchange(link, api, version, message)
        assert isinstance(answer, response_type)
        return answer

    async def choose_version(self, key: ApiKey, newest: int) -> int:
        """Return the version up to `newest` to use with this broker.

        Raises:
            PeerError: it does not say, or serves none of them.
        """
        async with self._lock, self._failing_well(self._timeout_ms):
            await self._open()
            return self._choose(key, newest)

    def interrupt(self) -> None:
        """Close the connection; whoever waits for an answer gets a PeerError."""
        link, self._link = self._link, None
        if link is not None:
            link.abort(PeerError(f"the connection to {self.name} was given up"))

    async def close(self) -> None:
        """Do that for good, and wait until nothing of the connection is left."""
        link = self._link
        self.interrupt()
        if link is not None:
            await link.closed

    @property
    def name(self) -> str:
        """Its address, for people."""
        return f"{self.endpoint.host}:{self.endpoint.port}"

    def _failing_well(self, timeout_ms: int) -> _FailingWell:
        return _FailingWell(self, timeout_ms)

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
        answer = await self._exchange(link, api, API_VERSIONS_VERSION, about)
        assert isinstance(answer, ApiVersionsResponse)
        if answer.error_code != ErrorCode.NONE:
            raise PeerError(f"{self.name} does not tell its versions: {answer.error_code}")
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        return link

    def _choose(self, key: ApiKey, newest: int) -> int:
        oldest = APIS[key].decodable[0]
        served = self._versions.get(key)
        if served is None or served[0] > newest or served[1] < oldest:
            raise PeerError(f"{self.name} serves {key.name} in {served}, not {oldest}..{newest}")
        return min(newest, served[1])

    async def _exchange(self, link: _Link, api: Api, version: int, message: object) -> object:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & MAX_CORRELATION_ID
        data = encode_request(api.key, version, correlation_id, self._client_id, message)
        frame = await link.exchange(data)
        answered_id, start = decode_response_header(api.key, version, frame)
        if answered_id != correlation_id:
            raise DecodeError(f"answer {answered_id}, expected {correlation_id}")
        answer: object = decode(api.response, frame[start:], version)
        return answer


class _FailingWell:
    """Turns whatever goes wrong within a time limit into a PeerError and a closed connection."""

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
            text = f"{self._peer.name} did not answer within {self._timeout_ms} ms"
            raise PeerError(text) from None
        if error is None:
            return
        # Also when cancelled: the answer that is under way would be taken for the next one's.
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
        self._answer: asyncio.Future[memoryview] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, data: bytes) -> memoryview:
        """Send `data` and return the frame that answers it."""
        assert self._transport is not None, "asyncio calls connection_made first"
        self._buffer.reset()
        self._answer = self._loop.create_future()
        self._transport.write(data)
        return await self._answer

    def abort(self, because: Exception) -> None:
        """End the connection at once."""
        self._fail(because)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adopt the transport; called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return where received bytes go; called by the event loop."""
        return self._buffer.free

    def buffer_updated(self, nbytes: int) -> None:
        """Take received bytes; called by the event loop."""
        try:
            frame = self._buffer.on_received(nbytes)
        except DecodeError as error:
            self.abort(error)
            return
        if frame is None:
            return
        answer, self._answer = self._answer, None
        if answer is None:
            self.abort(DecodeError("an answer to nothing"))
        elif not answer.done():
            answer.set_result(frame)

    def eof_received(self) -> bool:
        """Close when the peer does; called by the event loop."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what still waits; called by the event loop."""
        self._fail(exc or PeerError(f"{self._name} closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)

    def _fail(self, because: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            error = because if isinstance(because, OSError | DecodeError) else PeerError(because)
            answer.set_exception(error)
