"""A broker's connection to a controller that hangs or moves: `broker.cluster.controller_link`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker.cluster.controller_link import ControllerLink
from broker.cluster.metadata_cache import ClusterImage, Endpoint, MetadataCache
from broker.cluster.peer import Peer, PeerError
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.integration.broker.test_peer import answer, greet

SHORT_TIMEOUT_MS = 1_000
LONG_TIMEOUT_MS = 30_000


class Link(ControllerLink):
    """A link to the broker at `controller`, which the test may move."""

    def __init__(self, controller: Endpoint, *, timeout_ms: int) -> None:
        self.controller = controller
        self.metadata = MetadataCache()
        loop = asyncio.get_running_loop()
        super().__init__(
            lambda: self.controller,
            lambda endpoint: Peer(endpoint, loop=loop, client_id="t", timeout_ms=timeout_ms),
            self.metadata,
        )


class Broker:
    """A broker that responds, or accepts requests without a response."""

    def __init__(self, *, responds: bool) -> None:
        self.connection_count = 0
        self.got_request = asyncio.Event()
        self._responds = responds

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Endpoint]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield Endpoint(host, port)
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            await greet(reader, writer)
            while self._responds:
                await answer(reader, writer)
            await reader.readexactly(1)
            self.got_request.set()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def cluster_id(link: Link) -> str:
    return (await link.ask(DescribeClusterRequest(), DescribeClusterResponse)).cluster_id


async def test_a_request_behind_one_that_fails_goes_to_the_new_controller() -> None:
    former, new = Broker(responds=False), Broker(responds=True)
    async with former.listening() as at_former, new.listening() as at_new:
        link = Link(at_former, timeout_ms=SHORT_TIMEOUT_MS)
        first, second = asyncio.create_task(cluster_id(link)), asyncio.create_task(cluster_id(link))
        await former.got_request.wait()
        link.controller = at_new
        with pytest.raises(PeerError):
            await first
        assert await second == "version 1"
        assert former.connection_count == 1
        await link.close()


@asynccontextmanager
async def moved_controller() -> AsyncIterator[tuple[Link, "asyncio.Task[str]"]]:
    """A link whose controller has moved, and a request that waits for the former one."""
    former, new = Broker(responds=False), Broker(responds=True)
    async with former.listening() as at_former, new.listening() as at_new:
        link = Link(at_former, timeout_ms=LONG_TIMEOUT_MS)
        request = asyncio.create_task(cluster_id(link))
        await former.got_request.wait()
        link.controller = at_new
        yield link, request
        assert await cluster_id(link) == "version 1"
        await link.close()


async def test_a_request_to_a_former_controller_is_given_up_when_another_is_sent() -> None:
    async with moved_controller() as (link, request):
        assert await cluster_id(link) == "version 1"
        with pytest.raises(PeerError):
            await request


async def test_a_request_is_given_up_when_the_metadata_name_another_controller() -> None:
    async with moved_controller() as (link, request):
        link.metadata.adopt(ClusterImage())
        with pytest.raises(PeerError, match="given up"):
            await request


async def test_the_connection_stays_open_while_the_metadata_name_the_same_controller() -> None:
    broker = Broker(responds=True)
    async with broker.listening() as at_broker:
        link = Link(at_broker, timeout_ms=LONG_TIMEOUT_MS)
        assert await cluster_id(link) == "version 1"
        link.metadata.adopt(ClusterImage())
        assert await cluster_id(link) == "version 1"
        assert broker.connection_count == 1
        await link.close()
