"""Serves pages over HTTP, for Prometheus, for probes and for people (edge).

The server is read-only and answers one request per connection. A page is an answer, or pieces of
text between which other work runs.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from monitoring.exposition import CONTENT_TYPE

REQUEST_TIMEOUT_S: Final = 5.0
MAX_REQUEST_BYTES: Final = 16 * 1024
TURN_BYTES: Final = 16 * 1024
"""Text after which other work runs: some 200 samples, a fraction of a millisecond."""
SENT_TURN_BYTES: Final = 128 * 1024
"""Bytes after which other work runs while a page is sent."""
MAX_CONNECTIONS: Final = 64
"""Limit of concurrent connections. Pages take milliseconds, so real readers need far fewer, and the
oldest connection is that of a client that sends or reads nothing: another one takes its place."""
_STATUS: Final = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A page that is made at once."""

    text: str
    kind: str = CONTENT_TYPE
    status: int = 200


Page = Callable[[], Answer | AsyncIterator[str]]
"""Makes a page: an answer, or pieces of text between which other work may run."""


def json_page(value: Callable[[], object]) -> Page:
    """Return a page that shows a value as JSON."""
    return lambda: Answer(json.dumps(value()) + "\n", "application/json")


def health_page(troubles: Callable[[], Iterable[str]]) -> Page:
    """Return a page that says "ok", or names each trouble in a line of status 503."""

    def page() -> Answer:
        found = list(troubles())
        if not found:
            return Answer("ok\n")
        return Answer("".join(f"{each}\n" for each in found), status=503)

    return page


class StatusServer:
    """Answers one request per connection, from `start` until `stop`."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        """Serve `pages`, by their paths. Port 0 means any free one."""
        self._host = host
        self._wanted_port = port
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}
        """The connections, the oldest first."""

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
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host or None, self._wanted_port, limit=MAX_REQUEST_BYTES
            )
        except (UnicodeError, socket.gaierror) as error:
            # IDNA cannot encode the name, or nobody knows it.
            raise OSError(f"cannot listen on {self._host}:{self._wanted_port}: {error}") from None
        host, port = self._server.sockets[0].getsockname()[:2]
        log.info("status.listening", address=f"{host}:{port}")

    async def stop(self) -> None:
        """Close the listening socket."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._admit(writer)
        # So that `drain` waits, within the time limit, until the system has taken all bytes.
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                for parts in sent_turns(await self._answer(head)):
                    writer.writelines(parts)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError) as error:
            log.debug("status.request_failed", error=str(error))
            # Otherwise a reader that reads nothing could keep the closing socket and its bytes.
            writer.transport.abort()
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _admit(self, writer: asyncio.StreamWriter) -> None:
        """Count a connection in, and end the oldest one if there are too many."""
        self._open[writer] = None
        if len(self._open) > MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
            log.debug("status.connection_ended", limit=MAX_CONNECTIONS)

    async def _answer(self, head: bytes) -> Sequence[bytes]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        path = words[1].partition("?")[0] if len(words) > 1 else ""
        if words[0] != "GET":
            return _response(405, "text/plain", b"only GET is allowed\n")
        page = self._pages.get(path)
        if page is None:
            paths = "".join(f"{each}\n" for each in self._pages)
            return _response(404, "text/plain", paths.encode())
        content = page()
        if isinstance(content, Answer):
            return _response(content.status, content.kind, _encoded(content.text))
        pieces: list[bytes] = []
        size_bytes = 0
        async for piece in content:
            pieces.append(_encoded(piece))
            size_bytes += len(pieces[-1])
            if ends_turn(piece, size_bytes):
                size_bytes = 0
                await asyncio.sleep(0)
        return _response(200, CONTENT_TYPE, *pieces)


def sent_turns(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield `parts` in groups that are sent in a turn each: a megabyte takes milliseconds."""
    turn: list[bytes] = []
    size_bytes = 0
    for part in parts:
        turn.append(part)
        size_bytes += len(part)
        if size_bytes >= SENT_TURN_BYTES:
            yield turn
            turn, size_bytes = [], 0
    if turn:
        yield turn


def ends_turn(piece: str, size_bytes: int) -> bool:
    """Whether other work runs after `piece`, with which this turn has made `size_bytes` of text."""
    # A step without text may have taken as long as one with much.
    return not piece or size_bytes >= TURN_BYTES


def _encoded(text: str) -> bytes:
    # Names of clients may hold characters without an encoding.
    return text.encode(errors="replace")


def _response(status: int, kind: str, *body: bytes) -> Sequence[bytes]:
    """Return a response in parts, which need not be copied into one."""
    head = (
        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {sum(map(len, body))}\r\nConnection: close\r\n\r\n"
    )
    return [head.encode(), *body]
