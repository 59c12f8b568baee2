"""A proxy that loses produce responses: it forwards the request and drops the connection.

It runs in a thread with its own event loop, since clients of all kinds connect to it. Its target
may change: a restarted broker has another port.
"""

import asyncio
import random
import threading
from contextlib import suppress
from struct import unpack_from
from typing import Final

from kafkawire.apis import ApiKey

HOST: Final = "127.0.0.1"
LENGTH_BYTES: Final = 4


class LossyProxy:
    """Listens on `port` and forwards to `target_port`, or refuses while that is None."""

    def __init__(self, seed: int, loss_share: float) -> None:
        self.port = 0
        self.target_port: int | None = None
        self.loss_share = loss_share
        self.lost_count = 0
        self.delivered_count = 0
        """Numbers of produce responses that were lost, and that were delivered."""
        self._dice = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._run(self._listen())

    def stop(self) -> None:
        """Cut every connection and end the thread."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: "asyncio.Future[None] | object") -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()  # type: ignore[arg-type]

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._pipes:
            task.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            if self.target_port is not None:
                await self._pipe(reader, writer, self.target_port)
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            self._pipes.discard(task)
            writer.transport.abort()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        from_broker, to_broker = await asyncio.open_connection(HOST, port)
        produced: set[int] = set()
        requests = asyncio.create_task(_forward_requests(reader, to_broker, produced))
        try:
            while not requests.done():
                frame = await _read_frame(from_broker)
                correlation_id = unpack_from(">i", frame, LENGTH_BYTES)[0]
                if correlation_id in produced:
                    produced.discard(correlation_id)
                    if self._dice.random() < self.loss_share:
                        self.lost_count += 1
                        return
                    self.delivered_count += 1
                writer.write(frame)
                await writer.drain()
        finally:
            requests.cancel()
            with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                await requests
            to_broker.transport.abort()


async def _forward_requests(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, produced: set[int]
) -> None:
    """Forward requests; record the correlation ids of produce requests."""
    while True:
        frame = await _read_frame(reader)
        api_key, _, correlation_id = unpack_from(">hhi", frame, LENGTH_BYTES)
        if api_key == ApiKey.PRODUCE:
            produced.add(correlation_id)
        writer.write(frame)
        await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(LENGTH_BYTES)
    return length + await reader.readexactly(int.from_bytes(length, "big"))
