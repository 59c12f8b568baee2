"""The requests of one client connection, and their responses, in the same order (decision).

The owner writes the bytes that `request` returns, and receives bytes into `free()`. It also closes
the connection after an error, because no later byte can be trusted then.
Invariant: every request is settled once, by its response or by `fail`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

from kafkawire.apis import APIS, Api, ApiKey, api_of
from kafkawire.errors import DecodeError, EncodeError, ErrorCode, MisfitError, VersionError
from kafkawire.headers import decode_response_header, encode_request_parts
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.response_receiver import ResponseReceiver
from kafkawire.schema import Parts, decode

E = TypeVar("E", bound=Exception)
"""The errors that requests fail with."""
R = TypeVar("R")
"""The message type of a response."""
C = TypeVar("C", contravariant=True)
"""The message type that a future accepts."""

MAX_CORRELATION_ID: Final = 2**31 - 1
NO_CEILINGS: Final[Mapping[ApiKey, int]] = MappingProxyType({})

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_EMPTY_ARRAY: Final = bytes(4)


@dataclass(slots=True)
class Pending(Generic[E]):
    """One request that waits for its response."""

    correlation_id: int
    api: Api
    version: int
    on_response: Callable[[Any], None]
    on_failure: Callable[[E], None]
    deadline_s: float


class Exchange(Generic[E]):
    """The requests of one connection."""

    def __init__(
        self,
        client_id: str,
        max_response_bytes: int,
        *,
        ceilings: Mapping[ApiKey, int] = NO_CEILINGS,
    ) -> None:
        """Use no version above `ceilings`: later ones require features that the owner lacks."""
        self.pending: deque[Pending[E]] = deque()
        self._client_id = client_id
        self._ceilings = ceilings
        self._receiver = ResponseReceiver(max_response_bytes)
        self._served: dict[int, tuple[int, int]] = {}
        self._next_correlation_id = 0
        self.free = self._receiver.free

    def request(
        self,
        message: object,
        response_type: type[R],
        on_response: Callable[[R], None] | None,
        on_failure: Callable[[E], None],
        *,
        version: int | None = None,
        deadline_s: float = inf,
    ) -> Parts:
        """Return the frame of a request; later one of the two callbacks is called, once.

        If the content depends on the version, `message` is a function from version to message.
        Without `on_response`, the request has no response (Produce with acks=0).

        Raises:
            VersionError: the two sides share no version of this request, or only one that cannot
                carry `message`.
            MisfitError: no version can carry `message`.
        """
        api = api_of(response_type)
        if version is None:
            version = self.choose_version(api.key)
        correlation_id = self._next_correlation_id
        content = message(version) if callable(message) else message
        try:
            parts = encode_request_parts(api.key, version, correlation_id, self._client_id, content)
        except MisfitError:
            raise
        except EncodeError as error:
            raise VersionError(
                f"{api.name} in version {version}, which the broker speaks, cannot carry "
                f"this request: {error}"
            ) from error
        self._next_correlation_id = (correlation_id + 1) & MAX_CORRELATION_ID
        if on_response is not None:
            self.pending.append(
                Pending(correlation_id, api, version, on_response, on_failure, deadline_s)
            )
        return parts

    def receive(self, byte_count: int) -> None:
        """Pass on the responses that `byte_count` bytes in `free()` have completed.

        Raises:
            DecodeError: the bytes are no responses to the pending requests.
        """
        for frame in self._receiver.receive(byte_count):
            if not self.pending:
                raise DecodeError("a response without a request")
            waiting = self.pending[0]
            correlation_id, start = decode_response_header(waiting.api.key, waiting.version, frame)
            if correlation_id != waiting.correlation_id:
                expected = waiting.correlation_id
                raise DecodeError(
                    f"a response with correlation id {correlation_id}, not {expected}"
                )
            message = _decode_response(waiting.api, frame[start:], waiting.version)
            self.pending.popleft()
            waiting.on_response(message)

    def fail(self, error: E) -> None:
        """Fail all pending requests, because their responses will not arrive."""
        pending, self.pending = self.pending, deque()
        for waiting in pending:
            waiting.on_failure(error)

    def negotiate(self, response: ApiVersionsResponse, version: int) -> int | None:
        """Adopt the versions of the other side.

        If it does not know the `version` of the ApiVersions request, return the one in which to
        send it again (KIP-511).
        """
        self._served = {
            row.api_key: (row.min_version, row.max_version) for row in response.api_keys
        }
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
            return None
        _, newest = self._served.get(ApiKey.API_VERSIONS, (0, 0))
        return min(newest, version - 1)

    def choose_version(self, api_key: ApiKey, newest: int | None = None) -> int:
        """Return the highest common version of `api_key`, at most `newest`.

        Raises:
            VersionError: there is no common version.
        """
        oldest, last = APIS[api_key].decodable
        if newest is None:
            newest = self._ceilings.get(api_key, last)
        served = self._served.get(api_key)
        if served is None:
            raise VersionError(f"the broker does not offer {api_key.name}: use a broker that does")
        version = min(newest, served[1])
        if version < max(oldest, served[0]):
            raise VersionError(
                f"the broker offers {api_key.name} in versions {served[0]}..{served[1]}, "
                f"this side speaks {oldest}..{newest}: upgrade the older of the two"
            )
        return version


class _Settable(Protocol[C]):
    """A future, as asyncio has it."""

    def done(self) -> bool: ...
    def set_result(self, result: C, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


def callbacks_of(future: _Settable[C]) -> tuple[Callable[[C], None], Callable[[Exception], None]]:
    """Return the two callbacks of a request that settle `future`, unless it was cancelled."""

    def on_response(response: C) -> None:
        if not future.done():
            future.set_result(response)

    def on_failure(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    return on_response, on_failure


def _decode_response(api: Api, body: memoryview, version: int) -> Any:
    if api.key != ApiKey.API_VERSIONS or body[:2] != _UNSUPPORTED_VERSION:
        return decode(api.response, body, version)
    # The refusal of an unknown ApiVersions version is in version 0 (KIP-511).
    try:
        return decode(api.response, body, 0)
    except DecodeError:
        # Some brokers encode the list of versions wrongly (librdkafka's mock): take it as empty.
        return decode(api.response, _UNSUPPORTED_VERSION + _EMPTY_ARRAY, 0)
