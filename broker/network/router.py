"""Routes requests to their handlers (decision).

Owns the table of served APIs. Invariants: a handler sees only decoded messages, in advertised
versions; a request that cannot be decoded closes its connection, because later bytes cannot be
trusted; only ApiVersions is answered in any version, so that a newer client learns the supported
versions (KIP-511).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from broker.network.limits import BROKER_APIS
from broker.network.reply import Reply
from broker.network.request import Request
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import DecodeError, TrailingBytesError
from kafkawire.native import decode

FALLBACK_VERSION: Final = 0
# librdkafka (2.15 and 2.16 at least) requests the metadata of all topics with four bytes where the
# protocol has one for "no array", and ends a change of SCRAM users with its tagged fields twice.
# Kafka ignores bytes after a message.
APIS_WITH_SURPLUS: Final = frozenset({ApiKey.METADATA, ApiKey.ALTER_USER_SCRAM_CREDENTIALS})
MAX_SURPLUS_BYTES: Final = 8
# Limits of the total number of array elements in a request: each element costs its handler some
# microseconds, in which the loop serves no other request. Requests between brokers, and a
# follower's fetch, name all partitions of a broker; an element of a fetch costs less. The limit of
# requests between brokers applies once the sender is known: decoding alone takes a fifth of a
# second per MiB of the smallest elements.
MAX_ITEMS: Final = 10_000
MAX_FETCH_ITEMS: Final = 20_000
# WriteTxnMarkers names no sender, so that none can be known. A coordinator of Kafka sends all the
# markers that wait for a broker in one request, and the same again if its connection is closed.
MAX_MARKER_ITEMS: Final = 20_000
MAX_BROKER_ITEMS: Final = 1_000_000
_MANY_ITEMS: Final = {
    ApiKey.FETCH: MAX_FETCH_ITEMS,
    ApiKey.WRITE_TXN_MARKERS: MAX_MARKER_ITEMS,
}

# Each handler takes its own message type; the table's key pairs the two. Only that of ApiVersions
# gets None, for a request in a version that is not served.
Handler = Callable[[Request, Any], Reply]
# Calls its second argument with the body of a request between brokers, now or later, or not at all.
Admit = Callable[[Request, Callable[[memoryview], Reply]], Reply]
Served = Mapping[ApiKey, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Route:
    """Message, limits and handler of one API; both versions are inclusive."""

    min_version: int
    max_version: int
    max_items: int
    request: type[object]
    handle: Handler
    is_between_brokers: bool


class Router:
    """Decodes requests and hands them to the handlers of their APIs."""

    def __init__(
        self, makers: Mapping[ApiKey, Callable[[], Handler]], admit: Admit | None = None
    ) -> None:
        """Serve the APIs in `makers`, in the versions that `kafkawire.apis` advertises.

        A handler is made at the first request of its API. Requests between brokers that may have
        more than `MAX_ITEMS` elements are decoded when `admit` has accepted their senders, or
        refused without it.
        """
        self._admit = admit
        self._makers = dict(makers)
        self._routes: dict[ApiKey, Route] = {}
        self.served: Served = advertised(makers)

    def handle(self, request: Request) -> Reply:
        """Return the reply to `request`, complete or not."""
        header = request.header
        version = header.api_version
        route = self._routes.get(header.api_key)
        if route is None:
            route = self._make_route(header.api_key)
            if route is None:
                return Reply.close(f"API {header.api_key} is not served")
        if not route.min_version <= version <= route.max_version:
            return self._refuse_version(request, route)
        body = request.body
        # An element takes at least one byte.
        if route.is_between_brokers and len(body) > MAX_ITEMS and self._admit is not None:
            return self._admit(request, partial(self._handle_large, request, route))
        try:
            message = decode(route.request, body, version, route.max_items)
        except TrailingBytesError as error:
            surplus = error.left_bytes
            if header.api_key not in APIS_WITH_SURPLUS or surplus > MAX_SURPLUS_BYTES:
                return Reply.close(str(error))
            message = decode(route.request, body[:-surplus], version, route.max_items)
        except DecodeError as error:
            return Reply.close(str(error))
        return route.handle(request, message)

    def _handle_large(self, request: Request, route: Route, body: memoryview) -> Reply:
        version = request.header.api_version
        try:
            message = decode(route.request, body, version, MAX_BROKER_ITEMS)
        except DecodeError as error:
            return Reply.close(str(error))
        return route.handle(request, message)

    def _make_route(self, key: ApiKey) -> Route | None:
        make = self._makers.get(key)
        if make is None:
            return None
        min_version, max_version = self.served[key]
        route = Route(
            min_version,
            max_version,
            max_items(key),
            APIS[key].request,
            make(),
            is_between_brokers=key in BROKER_APIS,
        )
        self._routes[key] = route
        return route

    def _refuse_version(self, request: Request, route: Route) -> Reply:
        header = request.header
        if header.api_key != ApiKey.API_VERSIONS:
            return Reply.close(
                f"{ApiKey(header.api_key).name} version {header.api_version} is not within "
                f"{route.min_version}..{route.max_version}"
            )
        # The client may not read any other version, but every client reads version 0.
        request.header = replace(header, api_version=FALLBACK_VERSION)
        return route.handle(request, None)


def advertised(keys: Iterable[ApiKey]) -> Served:
    """Return the versions of the APIs in `keys`; both versions are inclusive."""
    served = {}
    for key in keys:
        versions = APIS[key].advertised
        assert versions is not None, f"{key.name} has a handler but no advertised versions"
        served[key] = versions
    return served


def max_items(key: ApiKey) -> int:
    """Return the maximum number of elements in a request from an unknown sender."""
    return _MANY_ITEMS.get(key, MAX_ITEMS)
