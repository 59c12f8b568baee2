"""A console in the event loop of a test, and requests without a browser."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ottla.console.access.address import ListenAddress
from ottla.console.web.serving import ConsoleOptions, listen_on, serve

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class ConsoleServer:
    """A running console."""

    port: int
    task: asyncio.Task[None]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def get(self, path: str, **headers: str) -> Answer:
        return await asyncio.to_thread(self._request, "GET", path, headers, None)

    async def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        given = {"Origin": f"http://{self.host}", **headers}
        return await asyncio.to_thread(self._request, "POST", path, given, urlencode(fields))

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read().decode())
        finally:
            connection.close()

    @asynccontextmanager
    async def events(self, path: str) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Open a stream of events; yield their names and data."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                yield _events(reader)
        finally:
            writer.close()


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    while line := await reader.readline():
        text = line.decode().rstrip()
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


@asynccontextmanager
async def console_of(
    bootstrap: str,
    *,
    token: str | None = None,
    is_read_only: bool = False,
    log_dirs: tuple[Path, ...] = (),
    reports: Path | None = None,
) -> AsyncIterator[ConsoleServer]:
    """Run a console of a cluster."""
    options = ConsoleOptions(
        bootstrap=bootstrap,
        security={},
        listen=ListenAddress("127.0.0.1", 0),
        token=token,
        is_read_only=is_read_only,
        log_dirs=log_dirs,
        reports=reports,
    )
    listening = listen_on(options.listen)
    ready = asyncio.Event()
    task = asyncio.create_task(serve(options, listening, ready.set))
    try:
        await asyncio.wait_for(ready.wait(), TIMEOUT_S)
        yield ConsoleServer(listening.getsockname()[1], task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
