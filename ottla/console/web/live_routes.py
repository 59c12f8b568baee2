"""The live pages, and the streams of their contents (edge)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from ottla.console.pages.live_pages import LIVE_PAGES
from ottla.console.pages.page import MissingError, PageFunction
from ottla.console.web.console import Console
from ottla.console.web.event_stream import KEEP_ALIVE, KEEP_ALIVE_S, Events, event

STREAM_PREFIX: Final = "/live"

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def live_routes(console: Console) -> list[BaseRoute]:
    """Return two routes per page: the page, and its stream."""
    return [
        route
        for path, make_page in LIVE_PAGES.items()
        for route in (
            Route(path, _content(console, make_page)),
            Route(STREAM_PREFIX + path, _Stream(console, make_page)),
        )
    ]


def _content(console: Console, make_page: PageFunction) -> Handler:
    async def respond(request: Request) -> Response:
        page = make_page(await console.observed(), request.query_params)
        query = f"?{request.url.query}" if request.url.query else ""
        return console.respond(request, page, stream=f"{STREAM_PREFIX}{request.url.path}{query}")

    return respond


class _Stream:
    """The contents of one page: one event at once, and one after each sample that changes it.

    The stream continues while the topic or group of the page is missing: a group vanishes for a
    moment when its coordinator dies, and a deleted topic may be created again.
    """

    def __init__(self, console: Console, make_page: PageFunction) -> None:
        self._console = console
        self._make_page = make_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parameters = dict(Request(scope).query_params)
        stream = self._console.streams.answer(lambda: self._events(parameters))
        await stream(scope, receive, send)

    async def _events(self, parameters: Mapping[str, str]) -> Events:
        collector, observation = self._console.collector, self._console.observation
        last, version = b"", -1
        while True:
            collector.show()
            if not await collector.changed(version, KEEP_ALIVE_S):
                yield KEEP_ALIVE
                continue
            version = observation.version
            try:
                page = self._make_page(observation, parameters)
                data = event("content", self._console.fragment(page))
            except MissingError as error:
                data = event("missing", str(error))
            if data != last:
                last = data
                yield data
