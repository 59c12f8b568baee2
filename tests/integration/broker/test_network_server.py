"""A socket server over real sockets: listeners, order, limits, idle connections, orderly stop."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.config.listener import Listener
from broker.network.acceptor import KEEPALIVE_IDLE_S
from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.socket_server import SocketServer
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from storage.config.config_key import INT_MAX
from tests.integration.broker.network_support import (
    HOST,
    Client,
    Parking,
    echo,
    on_every_loop,
    serving,
)
from tests.ports import free_port
from tests.waiting import until

REGION_BYTES = 3 * 1024 * 1024
CONTENT = bytes(range(251)) * (REGION_BYTES // 251 + 1)


@dataclass
class Region:
    file: BufferedReader
    position: int
    size_bytes: int


def fetch_answer(region: Region) -> Reply:
    partition = PartitionData(records=region)
    return Reply(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]))


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return path


async def ask_on_its_own(served_port: int, number: int) -> bytes:
    client = Client(*await asyncio.open_connection(HOST, served_port))
    try:
        return await client.ask(number, b"hello")
    finally:
        await client.close()


@on_every_loop
async def test_every_listener_serves_on_its_own_port() -> None:
    names: list[str] = []

    def handle(request: Request) -> Reply:
        names.append(request.listener_name)
        assert request.client_host == HOST
        return echo(request)

    async with serving(handle, names=("INTERNAL", "EXTERNAL")) as served:
        assert served.port("INTERNAL") != served.port("EXTERNAL")
        for name in ("INTERNAL", "EXTERNAL"):
            assert await (await served.connect(name)).ask(1, b"hello") == b"hello"
    assert names == ["INTERNAL", "EXTERNAL"]


@on_every_loop
async def test_a_hundred_pipelined_requests_are_answered_in_order() -> None:
    async with serving() as served:
        client = await served.connect()
        client.send(*((number, bytes(number)) for number in range(100)))
        for number in range(100):
            assert await client.receive() == (number, bytes(number))


@on_every_loop
async def test_late_replies_are_sent_in_request_order() -> None:
    parking = Parking()
    async with serving(parking.handle) as served:
        client = await served.connect()
        client.send(*((number, b"") for number in range(3)))
        await until(lambda: len(parking.replies) == 3, "three parked requests")
        for number in (2, 0, 1):
            parking.replies[number].complete(EncodedMessage(bytes([number])))
        assert [await client.receive() for _ in range(3)] == [(n, bytes([n])) for n in range(3)]


@on_every_loop
async def test_large_requests_and_responses_pass() -> None:
    body = struct.pack(">I", 0xCAFE) * (5 * 256 * 1024)
    async with serving() as served:
        client = await served.connect()
        client.send((1, body), (2, b"small"), (3, body))
        assert [await client.receive() for _ in range(3)] == [(1, body), (2, b"small"), (3, body)]


@on_every_loop
async def test_a_file_region_arrives_whole_without_being_copied(log_file: Path) -> None:
    with log_file.open("rb") as file:
        region = Region(file, 5, REGION_BYTES - 5)
        async with serving(lambda _request: fetch_answer(region)) as served:
            client = await served.connect()
            client.send((1, b""), (2, b""))
            for number in (1, 2):
                correlation_id, answer = await client.receive()
                assert correlation_id == number
                assert CONTENT[5:REGION_BYTES] in answer
            assert served.server.metrics.sendfile_bytes > REGION_BYTES


@on_every_loop
@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not tell")
async def test_a_file_that_is_not_in_memory_is_read_by_a_thread(
    log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A system need not drop a file from memory when it is advised to.
    def not_in_memory(*_args: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", not_in_memory)
    with log_file.open("rb") as file:
        region = Region(file, 5, REGION_BYTES - 5)
        async with serving(lambda _request: fetch_answer(region)) as served:
            client = await served.connect()
            client.send((1, b""))
            _, answer = await client.receive()
            assert CONTENT[5:REGION_BYTES] in answer
            assert served.server.metrics.cold_reads > 0


@on_every_loop
async def test_a_failed_read_ahead_is_left_to_the_following_read() -> None:
    ended = asyncio.Event()
    async with serving() as served:
        served.server._read_ahead(lambda: os.close(-1), ended.set)
        await ended.wait()


@on_every_loop
async def test_a_deleted_file_is_sent_to_its_end(log_file: Path) -> None:
    """The client reads only after the segment is deleted."""
    file = log_file.open("rb")
    regions = [Region(file, 0, REGION_BYTES)]
    async with serving(lambda _request: fetch_answer(regions.pop())) as served:
        client = await served.connect()
        client.send((1, b""))
        await until(lambda: not regions, "the fetch is handled")
        os.unlink(log_file)  # noqa: PTH108
        _, answer = await client.receive()
        assert CONTENT[:REGION_BYTES] in answer
    file.close()


@on_every_loop
async def test_a_truncated_file_ends_the_connection_instead_of_the_response(
    log_file: Path,
) -> None:
    with log_file.open("rb") as file:
        region = Region(file, len(CONTENT) - 100_000, 200_000)
        async with serving(lambda _request: fetch_answer(region)) as served:
            client = await served.connect()
            with capture_logs() as logs:
                client.send((1, b""), (2, b""))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await client.receive()
            assert "100000 of 200000 promised bytes are missing" in logs[0]["reason"]


@on_every_loop
async def test_one_connection_too_many_is_closed_and_the_others_stay() -> None:
    async with serving(limits=NetworkLimits(max_connections=2)) as served:
        first, second = await served.connect(), await served.connect()
        await until(lambda: served.server.connection_count == 2, "two connections")
        third = await served.connect()
        assert await third.is_closed_by_broker()
        assert await first.ask(1) == b""
        await second.close()
        await until(lambda: served.server.connection_count == 1, "one has left")
        assert await (await served.connect()).ask(2) == b""
        assert served.server.metrics.connections_refused == 1


@on_every_loop
async def test_one_connection_too_many_from_an_address_is_closed() -> None:
    limits = NetworkLimits(
        max_connections_per_ip=1, max_connections_per_ip_overrides={"127.0.0.3": 2}
    )
    async with serving(limits=limits) as served:
        kept = await served.connect(local_addr=("127.0.0.2", 0))
        assert await kept.ask(1) == b""
        assert await (await served.connect(local_addr=("127.0.0.2", 0))).is_closed_by_broker()
        for _ in range(2):
            assert await (await served.connect(local_addr=("127.0.0.3", 0))).ask(1) == b""
        assert await kept.ask(2) == b""


@on_every_loop
async def test_an_idle_connection_with_a_waiting_request_is_closed() -> None:
    parking = Parking()
    limits = NetworkLimits(connections_max_idle_ms=500)
    async with serving(parking.handle, limits) as served:
        with capture_logs() as logs:
            idle, waiting = await served.connect(), await served.connect()
            waiting.send((1, b""))
            for client in (idle, waiting):
                assert await client.is_closed_by_broker()
        assert [(each["event"], each["log_level"]) for each in logs] == [
            ("connection.dropped", "info")
        ] * 2
        assert parking.replies[1].cancelled


@pytest.mark.skipif(sys.platform != "linux", reason="the options are the system's")
@on_every_loop
async def test_accepted_connections_have_keepalive_probes() -> None:
    async with serving(limits=NetworkLimits(connections_max_idle_ms=2**40)) as served:
        client = await served.connect()
        assert await client.ask(1) == b""
        (connection,) = served.server._connections
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == INT_MAX


@on_every_loop
async def test_a_taken_port_is_an_error_and_no_listener_is_left() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server((HOST, 0)) as taken:
        free = free_port()
        listeners = [
            Listener("FREE", HOST, free),
            Listener("TAKEN", HOST, taken.getsockname()[1]),
        ]
        channel = RequestChannel(loop, echo, NetworkLimits())
        server = SocketServer(listeners, NetworkLimits(), channel)
        with pytest.raises(OSError, match="in use"):
            await server.start()
        await server.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, free)


@on_every_loop
async def test_draining_answers_requests_already_read_and_closes() -> None:
    parking = Parking()
    async with serving(parking.handle) as served:
        busy, quiet = await served.connect(), await served.connect()
        port = served.port()
        busy.send((1, b""))
        await until(lambda: bool(parking.replies), "a parked request")
        served.server.stop_accepting()
        drained = asyncio.create_task(served.server.drain(timeout_s=20))
        assert await quiet.is_closed_by_broker()
        busy.send((2, b"too late"))
        assert not drained.done()
        parking.replies[1].complete(EncodedMessage(b"answer"))
        assert await busy.receive() == (1, b"answer")
        assert await busy.is_closed_by_broker()
        assert await drained
        assert list(parking.replies) == [1]
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, port)


@on_every_loop
async def test_draining_times_out_and_closing_cancels() -> None:
    parking = Parking()
    async with serving(parking.handle) as served:
        client = await served.connect()
        client.send((1, b""))
        await until(lambda: bool(parking.replies), "a parked request")
        served.server.stop_accepting()
        assert not await served.server.drain(timeout_s=0.05)
        [open_one] = served.server.describe_open()
        assert open_one.endswith(f" {HOST}: a response to PRODUCE")
        await served.server.close()
        assert parking.replies[1].cancelled
        assert await client.is_closed_by_broker()


@on_every_loop
async def test_a_server_that_never_started_can_be_closed() -> None:
    channel = RequestChannel(asyncio.get_running_loop(), echo, NetworkLimits())
    await SocketServer([Listener("A", HOST, 0)], NetworkLimits(), channel).close()


@on_every_loop
async def test_buffer_sizes_reach_the_sockets() -> None:
    limits = NetworkLimits(socket_send_buffer_bytes=50_000, socket_receive_buffer_bytes=60_000)
    async with serving(limits=limits) as served:
        assert await (await served.connect()).ask(1) == b""
        (connection,) = served.server._connections
        ours = connection._transport.get_extra_info("socket")
        # The system doubles the requested size.
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000


@on_every_loop
async def test_requests_of_a_control_plane_listener_come_first() -> None:
    handled: list[str] = []

    def handle(request: Request) -> Reply:
        handled.append(request.listener_name)
        return echo(request)

    async with serving(
        handle, names=("PLAINTEXT", "CONTROLLER"), control_plane_listener_name="CONTROLLER"
    ) as served:
        client, controller = await served.connect(), await served.connect("CONTROLLER")
        assert await client.ask(1) == b""
        assert await controller.ask(2) == b""
        planes = {
            each.listener_name: each._queue.is_control_plane for each in served.server._connections
        }
        assert planes == {"PLAINTEXT": False, "CONTROLLER": True}
