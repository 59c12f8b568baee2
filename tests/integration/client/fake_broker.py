"""A scripted Kafka cluster on real sockets, in the test's own event loop.

It speaks the protocol through kafkawire, keeps its logs in memory (`fake_log`), responds correctly
(`fake_answer`) and fails on command: `cluster.script(ApiKey.PRODUCE, LoseResponse())` makes the
next produce request fail in that way (`fake_fault`).
"""

import asyncio
import socket
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.headers import RequestHeader, decode_request_header, encode_response
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.produce import ProduceRequest
from kafkawire.schema import decode
from tests.frames import frames_of
from tests.integration.client.fake_answer import Responder, default_versions, has_records
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    Hold,
    LoseResponse,
    Never,
    Omit,
    Refuse,
    RefuseWhole,
)
from tests.integration.client.fake_log import FakeLogs, FakePartition
from tests.waiting import DEADLINE_S

HOST: Final = "127.0.0.1"
READ_BYTES: Final = 256 * 1024
TICK_S: Final = 0.02
RECEIVE_BUFFER_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Seen:
    """One request that arrived."""

    broker_id: int
    api_key: ApiKey
    version: int
    message: Any


class _SilentError(Exception):
    """From now on the broker sends no response on this connection."""


class FakeBroker:
    """One broker: a listening socket and the connections to it."""

    def __init__(self, cluster: "FakeCluster", broker_id: int) -> None:
        self.broker_id = broker_id
        self.connection_count = 0
        self.accepted_count = 0
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._holder = socket.socket()
        """Reserves the port, also while the broker is stopped."""
        self.port = 0

    async def start(self) -> None:
        """Listen, after a restart on the same port as before."""
        if self.port == 0:
            self._reserve_port()
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        listening = self._server.sockets[0]
        # Otherwise the kernel buffers tens of MB for a broker that reads nothing.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def release_port(self) -> None:
        """Leave the port to others; call this after the last stop."""
        self._holder.close()

    def _reserve_port(self) -> None:
        self._holder.close()
        self._holder = socket.socket()
        self._holder.bind((HOST, 0))
        # After the bind, so that the server may listen beside it.
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port = self._holder.getsockname()[1]

    def cut(self) -> None:
        """Cut every connection, and continue to listen."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connection_count += 1
        self.accepted_count += 1
        try:
            async for frame in frames_of(reader):
                if not await self._handle(frame, reader, writer):
                    return
        except _SilentError:
            while await reader.read(READ_BYTES):
                pass
        except (ConnectionError, asyncio.CancelledError, DecodeError):
            pass
        finally:
            self.connection_count -= 1
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _handle(
        self, frame: memoryview, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        header, start = decode_request_header(frame)
        api_key = ApiKey(header.api_key)
        low, high = self._cluster.versions.get(api_key, (0, -1))
        if not low <= header.api_version <= high:
            return self._refuse_version(api_key, header, writer)
        message = decode(APIS[api_key].request, frame[start:], header.api_version)
        self._cluster.requests.append(Seen(self.broker_id, api_key, header.api_version, message))
        self._cluster.notify()
        return await self._respond(api_key, header, message, reader, writer)

    def _refuse_version(
        self, api_key: ApiKey, header: RequestHeader, writer: asyncio.StreamWriter
    ) -> bool:
        if api_key is not ApiKey.API_VERSIONS:
            return False
        response = self._cluster.responder(self.broker_id).api_versions(None)
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        writer.write(encode_response(api_key, 0, header.correlation_id, response))
        return True

    async def _respond(
        self,
        api_key: ApiKey,
        header: RequestHeader,
        message: Any,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Respond to one request; return whether the connection stays open."""
        fault = self._cluster.next_fault(api_key)
        refusal = None
        match fault:
            case HangUp():
                return False
            case Never():
                raise _SilentError
            case Garbage(garbage):
                writer.write(len(garbage).to_bytes(4, "big") + garbage)
                return True
            case Hold(until):
                await until.wait()
            case Refuse(code):
                refusal = code
            case LoseResponse() | RefuseWhole() | Omit() | None:
                pass
        if isinstance(fault, RefuseWhole):
            response: Any = FetchResponse(error_code=fault.code)
        elif isinstance(fault, Omit):
            response = APIS[api_key].response()
        else:
            response = await self._carry_out(api_key, message, refusal, reader)
        if isinstance(fault, LoseResponse):
            return False
        if not (isinstance(message, ProduceRequest) and message.acks == 0):
            version = header.api_version
            writer.write(encode_response(api_key, version, header.correlation_id, response))
            await writer.drain()
        return True

    async def _carry_out(
        self,
        api_key: ApiKey,
        message: Any,
        refusal: ErrorCode | None,
        reader: asyncio.StreamReader,
    ) -> Any:
        responder = self._cluster.responder(self.broker_id, refusal)
        response = responder.respond(api_key, message)
        if isinstance(message, FetchRequest):
            with suppress(TimeoutError):
                async with asyncio.timeout(message.max_wait_ms / 1000):
                    while not has_records(response) and not reader.at_eof():
                        await self._cluster.appended_or_tick()
                        response = responder.respond(api_key, message)
        elif isinstance(message, ProduceRequest):
            self._cluster.announce()
        return response


class FakeCluster:
    """Brokers that share their logs; broker 0 is the controller by default."""

    def __init__(self, versions: Mapping[ApiKey, tuple[int, int]] | None = None) -> None:
        self.logs = FakeLogs()
        self.versions = default_versions() | dict(versions or {})
        self.brokers: dict[int, FakeBroker] = {}
        self.controller_id = 0
        self.requests: list[Seen] = []
        self._appended = asyncio.Event()
        self._faults: defaultdict[ApiKey, deque[Fault]] = defaultdict(deque)
        self._news = asyncio.Event()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers.values())

    def create(self, topic: str, leaders: list[int] | None = None) -> list[FakePartition]:
        """Create a topic with one partition per given leader; broker 0 leads one by default."""
        return self.logs.create(topic, leaders or [0])

    def script(self, api_key: ApiKey, *faults: Fault) -> None:
        """Make the next requests of this kind fail, one after the other."""
        self._faults[api_key] += faults

    def hold(self, api_key: ApiKey) -> asyncio.Event:
        """Hold the next request of this kind until the returned event is set."""
        released = asyncio.Event()
        self.script(api_key, Hold(released))
        return released

    def heal(self, api_key: ApiKey) -> None:
        """Drop the scripted faults that did not occur yet."""
        self._faults[api_key].clear()

    def next_fault(self, api_key: ApiKey) -> Fault | None:
        """Take the scripted fault of the next request of this kind, if there is one."""
        waiting = self._faults[api_key]
        return waiting.popleft() if waiting else None

    def announce(self) -> None:
        """Wake the fetches that wait for records."""
        self._appended.set()
        self._appended = asyncio.Event()

    async def appended_or_tick(self) -> None:
        """Wait for records, but only for a moment: the client may have disconnected."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                await self._appended.wait()

    def notify(self) -> None:
        """Wake the callers of `wait_for`."""
        self._news.set()
        self._news = asyncio.Event()

    def seen(self, api_key: ApiKey) -> list[Any]:
        """Return the messages of this kind that arrived."""
        return [request.message for request in self.requests if request.api_key is api_key]

    async def wait_for(self, api_key: ApiKey, count: int = 1) -> None:
        """Wait until `count` requests of this kind have arrived."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.seen(api_key)) < count:
                await self._news.wait()

    def responder(self, broker_id: int, refusal: ErrorCode | None = None) -> Responder:
        """Return the responder of a broker."""
        return Responder(
            broker_id=broker_id,
            controller_id=self.controller_id,
            logs=self.logs,
            addresses={broker.broker_id: (HOST, broker.port) for broker in self.brokers.values()},
            versions=self.versions,
            refusal=refusal,
        )


@asynccontextmanager
async def fake_cluster(
    broker_count: int = 1, versions: Mapping[ApiKey, tuple[int, int]] | None = None
) -> AsyncIterator[FakeCluster]:
    """Run a cluster; when the block ends, every connection must have been closed by its client."""
    cluster = FakeCluster(versions)
    brokers = [FakeBroker(cluster, broker_id) for broker_id in range(broker_count)]
    for broker in brokers:
        await broker.start()
        cluster.brokers[broker.broker_id] = broker
    try:
        yield cluster
    finally:
        for broker in brokers:
            await broker.stop()
            broker.release_port()
