"""Runs the console until it is cancelled (composition)."""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import uvicorn

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.security import SecurityOptions
from ottla.console.access.address import ListenAddress
from ottla.console.access.token import Access
from ottla.console.observation.collector import Collector
from ottla.console.observation.observation import Observation
from ottla.console.records.reader import PREFETCH_BYTES, RecordReaders
from ottla.console.view.rendering import Renderer
from ottla.console.web.application import make_application
from ottla.console.web.connection import REQUEST_TIMEOUT_S, Connection
from ottla.console.web.console import Console
from ottla.console.web.event_stream import EventStreams
from ottla.console.web.guard import TOKEN_PARAMETER

CLIENT_ID: Final = "ottla-console"
BACKLOG: Final = 128
FORM_SECRET_BYTES: Final = 24
MAX_CONNECTIONS: Final = 256
STOP_TIMEOUT_S: Final = 2
_NANOSECONDS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The cluster, and the limits of the console."""

    bootstrap: str
    security: SecurityOptions
    listen: ListenAddress
    token: str | None = None
    host_names: tuple[str, ...] = ()
    is_read_only: bool = False
    log_dirs: tuple[Path, ...] = ()
    reports: Path | None = None


def check_options(options: ConsoleOptions) -> None:
    """Check the options of the connection to the cluster.

    Raises:
        ConfigurationError: one of them is not valid.
    """
    Admin(options.bootstrap, client_id=CLIENT_ID, **options.security)


def listen_on(address: ListenAddress, *, or_any_port: bool = False) -> socket.socket:
    """Return a listening socket; with `or_any_port`, a free port replaces one that is taken.

    Raises:
        OSError: the address cannot be used.
    """
    try:
        return _bind(address)
    except OSError:
        if not or_any_port:
            raise
        return _bind(address.at_port(0))


def _bind(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    listening.setblocking(False)
    return listening


def url_of(listening: socket.socket, token: str | None) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    place = ListenAddress("127.0.0.1" if host == "0.0.0.0" else host, port)
    # A token in base64 may have a plus sign, which would be a space in an address.
    query = "" if token is None else f"?{urlencode({TOKEN_PARAMETER: token})}"
    return f"http://{place}/{query}"


async def serve(
    options: ConsoleOptions, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Answer requests until cancelled; call `ready` once the first can be answered."""
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    console = _console(options)
    server = _Server(
        uvicorn.Config(
            make_application(console, options.host_names),
            log_config=None,
            access_log=False,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=REQUEST_TIMEOUT_S,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
    )
    collecting = asyncio.create_task(console.collector.run(), name="collector")
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="server")
    try:
        ready()
        done, _ = await asyncio.wait((collecting, serving), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        console.streams.close()
        server.should_exit = True
        collecting.cancel()
        await asyncio.wait((collecting, serving))


def _console(options: ConsoleOptions) -> Console:
    def connect(timeout_ms: int) -> Admin:
        return Admin(
            options.bootstrap,
            request_timeout_ms=timeout_ms,
            client_id=CLIENT_ID,
            **options.security,
        )

    def consume() -> Consumer:
        return Consumer(
            options.bootstrap,
            client_id=CLIENT_ID,
            auto_offset_reset="earliest",
            prefetch_max_bytes=PREFETCH_BYTES,
            **options.security,
        )

    access = Access(options.token, secrets.token_urlsafe(FORM_SECRET_BYTES))
    shared = {
        "is_read_only": options.is_read_only,
        "csrf": access.form_secret,
        "bootstrap": options.bootstrap,
    }
    return Console(
        collector=Collector(Observation(), connect, now_ms),
        readers=RecordReaders(consume),
        renderer=Renderer(shared),
        streams=EventStreams(),
        access=access,
        is_read_only=options.is_read_only,
        log_dirs=options.log_dirs,
        reports=options.reports,
        now_ms=now_ms,
    )


def now_ms() -> int:
    """Return the time in ms since the epoch."""
    return time.time_ns() // _NANOSECONDS_PER_MS


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
