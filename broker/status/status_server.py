"""Serves a broker's status over HTTP, for Prometheus and for people (edge).

`/metrics` holds the metrics in Prometheus' format, `/tasks` the periodic tasks with their last and
next runs, `/startup` the steps of the start. The server is read-only. It starts before all other
parts, so that a slow start can be watched. Without `metrics.listener` there is no server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from broker.config.listener import Listener

REQUEST_TIMEOUT_S: Final = 5.0
MAX_REQUEST_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 64
"""Limit of concurrent connections; pages take milliseconds, so real readers need far fewer."""
_STATUS: Final = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

Page = Callable[[], str | object]
"""Returns text, sent as it is, or any value that JSON can represent."""

log = structlog.get_logger(__name__)


class StatusServer:
    """Answers one request per connection, from `start` until `stop`."""

    def __init__(self, listener: Listener, pages: Mapping[str, Page]) -> None:
        """Serve `pages`, by their paths."""
        self._listener = listener
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._connection_count = 0

    @property
    def port(self) -> int:
        """The bound port."""
        assert self._server is not None, "start comes first"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Bind and accept connections.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = await asyncio.start_server(
            self._serve,
            self._listener.host or None,
            self._listener.port,
            limit=MAX_REQUEST_BYTES,
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        log.info("status.listening", address=f"{host}:{port}")

    async def stop(self) -> None:
        """Close the listening socket."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connection_count += 1
        try:
            if self._connection_count > MAX_CONNECTIONS:
                writer.write(_response(503, "text/plain", "too many connections\n"))
                return
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError) as error:
            log.debug("status.request_failed", error=str(error))
        finally:
            self._connection_count -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        path = words[1].partition("?")[0] if len(words) > 1 else ""
        if words[0] != "GET":
            return _response(405, "text/plain", "only GET is allowed\n")
        page = self._pages.get(path)
        if page is None:
            return _response(404, "text/plain", "".join(f"{each}\n" for each in self._pages))
        content = page()
        if isinstance(content, str):
            return _response(200, "text/plain; version=0.0.4", content)
        return _response(200, "application/json", json.dumps(content) + "\n")


def _response(status: int, kind: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
