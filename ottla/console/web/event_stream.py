"""Server-sent events to browsers (edge).

A stream writes only the latest state, and waits for the browser before the next event, so that a
slow browser costs one event of memory and holds nothing up. A browser that accepts nothing for
`SEND_TIMEOUT_S` is disconnected. The number of streams is limited.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Final, TypeAlias

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

MAX_STREAMS: Final = 64
SEND_TIMEOUT_S: Final = 20.0
KEEP_ALIVE_S: Final = 15.0
RETRY_MS: Final = 2_000
"""Time after which a browser connects again."""
Events: TypeAlias = AsyncGenerator[bytes, None]
KEEP_ALIVE: Final = b": still here\n\n"


def event(name: str, data: object) -> bytes:
    """Return an event with data as JSON, on one line."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class EventStreams:
    """Counts the open streams, and ends them when the server stops."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        """Number of open streams."""
        return len(self._open)

    def close(self) -> None:
        """End all streams, and refuse others."""
        self._is_closed = True
        for task in self._open:
            task.cancel()

    def answer(self, events: Callable[[], Events]) -> "EventStream":
        """Return the response with these events."""
        return EventStream(self, events)

    async def run(self, work: "asyncio.Task[None]") -> None:
        """Wait for a stream, which counts as open meanwhile."""
        self._open.add(work)
        try:
            await asyncio.wait((work,))
        finally:
            work.cancel()
            self._open.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error

    @property
    def is_full(self) -> bool:
        """Whether no further stream may open."""
        return self._is_closed or len(self._open) >= MAX_STREAMS


class EventStream:
    """A response that lasts until the browser leaves, the events end or the server stops."""

    def __init__(self, streams: EventStreams, events: Callable[[], Events]) -> None:
        self._streams = streams
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        if self._streams.is_full:
            busy = PlainTextResponse("Too many pages are open.\n", 503, {"Retry-After": "10"})
            await busy(scope, receive, send)
            return
        work = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_until_disconnected(receive))
        leaving.add_done_callback(lambda _: work.cancel())
        try:
            await self._streams.run(work)
        finally:
            leaving.cancel()

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        events = self._events()
        try:
            await _send_body(send, f"retry: {RETRY_MS}\n\n".encode())
            async for data in events:
                await _send_body(send, data)
        except (TimeoutError, OSError):
            # The browser has left, or accepts nothing: without an end of the body uvicorn closes
            # the connection.
            return
        finally:
            await events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_body(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
