"""Connections to a slow, dead or invalid broker: `broker.cluster.peer`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from struct import Struct

import pytest

from broker.cluster.metadata_cache import Endpoint
from broker.cluster.peer import Peer, PeerError
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_request_header, encode_response
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

SIZE = Struct(">i")
TIMEOUT_MS = 30_000
SHORT_MS = 50

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> tuple[ApiKey, int, int]:
    (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
    header, _ = decode_request_header(await reader.readexactly(size))
    return header.api_key, header.api_version, header.correlation_id


async def greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, newest: int = 1, version: int = 4
) -> None:
    """Respond to the ApiVersions request, which must be in `version`, with one API."""
    key, used_version, correlation_id = await read_request(reader)
    assert (key, used_version) == (ApiKey.API_VERSIONS, version)
    api = ApiVersion(api_key=ApiKey.DESCRIBE_CLUSTER, min_version=0, max_version=newest)
    answer = ApiVersionsResponse(api_keys=[api])
    writer.write(encode_response(key, version, correlation_id, answer))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    key, version, correlation_id = await read_request(reader)
    message = DescribeClusterResponse(cluster_id=f"version {version}")
    writer.write(encode_response(key, version, correlation_id, message))


@asynccontextmanager
async def peer_of(serve: Serve) -> AsyncIterator[Peer]:
    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    loop = asyncio.get_running_loop()
    peer = Peer(Endpoint(host, port), loop=loop, client_id="t", timeout_ms=TIMEOUT_MS)
    try:
        yield peer
    finally:
        await peer.close()
        server.close()
        await server.wait_closed()


async def ask(peer: Peer) -> str:
    return (await peer.ask(DescribeClusterRequest(), DescribeClusterResponse)).cluster_id


@pytest.mark.parametrize("newest", [0, 1, 9])
async def test_the_newest_common_version_is_used(newest: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer, newest)
        await answer(reader, writer)
        await answer(reader, writer)

    async with peer_of(serve) as peer:
        assert [await ask(peer), await ask(peer)] == [f"version {min(newest, 1)}"] * 2


async def test_an_api_that_is_not_served_is_an_error() -> None:
    async with peer_of(greet) as peer:
        with pytest.raises(PeerError, match="does not offer ALTER_PARTITION"):
            await peer.choose_version(ApiKey.ALTER_PARTITION, 3)


async def test_a_refused_connection_is_an_error() -> None:
    async with peer_of(greet) as peer:
        gone = Endpoint("127.0.0.1", 1)
        lonely = Peer(gone, loop=asyncio.get_running_loop(), client_id="t")
        with pytest.raises(PeerError):
            await ask(lonely)
        assert peer.endpoint != gone


@pytest.mark.parametrize("host", ["two..dots", "x" * 64, "nul\0", "\ud800", "127.0.0.1"])
async def test_an_address_that_cannot_exist_is_an_error(host: str) -> None:
    peer = Peer(Endpoint(host, 70_000), loop=asyncio.get_running_loop(), client_id="t")
    with pytest.raises(PeerError):
        await ask(peer)


async def test_a_port_above_the_limit_leads_to_no_other_port() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await answer(reader, writer)

    async with peer_of(serve) as near:
        beyond = Endpoint("localhost", near.endpoint.port + 65_536)
        peer = Peer(beyond, loop=asyncio.get_running_loop(), client_id="t")
        with pytest.raises(PeerError, match=f"port {beyond.port}"):
            await ask(peer)
        await peer.close()


async def test_a_silent_peer_times_out_and_the_next_request_reconnects() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await greet(reader, writer)
        if connections > 1:
            await answer(reader, writer)

    async with peer_of(serve) as peer:
        with pytest.raises(PeerError, match="within 50 ms"):
            await peer.ask(DescribeClusterRequest(), DescribeClusterResponse, timeout_ms=SHORT_MS)
        assert await ask(peer) == "version 1"
    assert connections == 2


async def test_a_lost_connection_is_an_error_and_then_reopened() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await greet(reader, writer)
        if connections == 1:
            await read_request(reader)
            writer.close()
        else:
            await answer(reader, writer)

    async with peer_of(serve) as peer:
        with pytest.raises(PeerError, match="closed"):
            await ask(peer)
        assert await ask(peer) == "version 1"


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(SIZE.pack(-5), id="impossible size"),
        pytest.param(SIZE.pack(4) + SIZE.pack(77), id="another correlation id"),
        pytest.param(SIZE.pack(5) + SIZE.pack(1) + b"\0", id="no message"),
        pytest.param(SIZE.pack(0), id="no header"),
    ],
)
async def test_a_malformed_response_closes_the_connection(garbage: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await read_request(reader)
        writer.write(garbage)

    async with peer_of(serve) as peer:
        with pytest.raises(PeerError):
            await ask(peer)


async def test_an_unexpected_response_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await answer(reader, writer)
        await answered.wait()
        writer.write(SIZE.pack(4) + SIZE.pack(9))

    answered = asyncio.Event()
    async with peer_of(serve) as peer:
        assert await ask(peer) == "version 1"
        answered.set()
        link = peer._link
        assert link is not None
        await asyncio.wait_for(link.closed, TIMEOUT_MS / 1000)


async def test_a_broker_without_api_versions_is_an_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key, version, correlation_id = await read_request(reader)
        refusal = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        writer.write(encode_response(key, version, correlation_id, refusal))

    async with peer_of(serve) as peer:
        with pytest.raises(PeerError, match="ApiVersions was refused"):
            await ask(peer)


async def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key, _, correlation_id = await read_request(reader)
        known = ApiVersion(api_key=key, min_version=0, max_version=2)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])
        writer.write(encode_response(key, 0, correlation_id, refusal))
        await greet(reader, writer, version=2)
        await answer(reader, writer)

    async with peer_of(serve) as peer:
        assert await ask(peer) == "version 1"


async def test_a_closed_peer_is_not_connected_again() -> None:
    async with peer_of(greet) as peer:
        await peer.choose_version(ApiKey.DESCRIBE_CLUSTER)
        await peer.close()
        with pytest.raises(PeerError, match="closed"):
            await ask(peer)
        assert peer._link is None


async def test_a_waiting_request_can_be_interrupted() -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await read_request(reader)
        asked.set()

    async with peer_of(serve) as peer:
        waiting = asyncio.create_task(ask(peer))
        await asked.wait()
        peer.interrupt()
        with pytest.raises(PeerError, match="given up"):
            await waiting


async def test_the_response_to_a_cancelled_request_is_not_given_to_the_next() -> None:
    connections = 0
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await greet(reader, writer)
        if connections > 1:
            await answer(reader, writer)
        else:
            await read_request(reader)
            asked.set()

    async with peer_of(serve) as peer:
        waiting = asyncio.create_task(ask(peer))
        await asked.wait()
        waiting.cancel()
        assert await asyncio.gather(waiting, return_exceptions=True)
        assert await ask(peer) == "version 1"
    assert connections == 2
