"""A TLS listener has the same order and limits; files are copied, never sent by sendfile."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import warnings
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

import pytest

from broker.config.listener import Listener
from broker.network import acceptor, tls_acceptor
from broker.network.connection_gate import ListenerSecurity
from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request_channel import RequestChannel
from broker.network.socket_server import SocketServer
from broker.network.tls_acceptor import ACCEPTS_PER_TURN
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.integration.broker.network_support import (
    CLEAN_UP_S,
    Served,
    echo,
    on_every_loop,
    serving,
)
from tests.waiting import until
from trust.tls_alert import ServerContext

FOLDER: Final = Path(__file__).parent / "tls"
REGION_BYTES: Final = 2 * 1024 * 1024
SILENT_CLIENTS: Final = 100
KEPT_HANDSHAKES: Final = ACCEPTS_PER_TURN + 1


@dataclass
class Region:
    file: BufferedReader
    position: int
    size_bytes: int


def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FOLDER / "server.crt", FOLDER / "server.key")
    return context


SECURED: Final = {"SSL": ListenerSecurity(tls=server_context)}


def client_context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(FOLDER / "server.crt"))


@on_every_loop
async def test_requests_over_tls_are_answered_in_order() -> None:
    names = ("PLAINTEXT", "SSL")
    async with serving(names=names, security=SECURED) as served:
        client = await served.connect("SSL", ssl=client_context())
        bodies = [bytes([number]) * number * 3000 for number in range(40)]
        client.send(*enumerate(bodies))
        for number, body in enumerate(bodies):
            assert await client.receive() == (number, body)
        assert await (await served.connect("PLAINTEXT")).ask(1, b"plain") == b"plain"


@on_every_loop
async def test_files_are_copied_into_tls(tmp_path: Path) -> None:
    content = os.urandom(REGION_BYTES)
    path = tmp_path / "log"
    await asyncio.to_thread(path.write_bytes, content)
    file = await asyncio.to_thread(path.open, "rb")

    def handle(_request: object) -> Reply:
        partition = PartitionData(records=Region(file, 5, REGION_BYTES - 5))
        return Reply(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]))

    async with serving(handle, names=("SSL",), security=SECURED) as served:
        client = await served.connect("SSL", ssl=client_context())
        client.send((1, b""), (2, b""))
        for number in (1, 2):
            correlation_id, answer = await client.receive()
            assert correlation_id == number
            assert content[5:] in answer
        assert served.server.metrics.sendfile_bytes == 0
    file.close()


@on_every_loop
async def test_a_plain_client_on_a_tls_listener_is_closed_and_the_others_stay() -> None:
    async with serving(names=("SSL",), security=SECURED) as served:
        good = await served.connect("SSL", ssl=client_context())
        plain = await served.connect("SSL")
        plain.send((1, b"not TLS"))
        await until_closed(plain.reader)
        assert await good.ask(1, b"still here") == b"still here"
        assert served.server.connection_count == 1


@on_every_loop
async def test_a_tls_client_that_never_reads_costs_a_bounded_amount() -> None:
    body = bytes(100_000)
    async with serving(
        lambda _request: Reply(EncodedMessage(body)),
        names=("SSL",),
        security=SECURED,
    ) as served:
        client = await served.connect("SSL", ssl=client_context())
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(1_000):
            client.send((number, b""))
        await until(lambda: is_stuck(served), "a full socket")
        (connection,) = served.server._connections
        assert connection._transport.get_write_buffer_size() < 1024 * 1024
        client.writer.transport.abort()
        await until(lambda: served.server.connection_count == 0, "the end")


@on_every_loop
async def test_a_client_without_a_handshake_does_not_delay_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_acceptor, "HANDSHAKE_TIMEOUT_S", 600.0)
    async with serving(names=("SSL",), security=SECURED) as served:
        silent = await served.connect("SSL")
        await (await served.connect("SSL", ssl=client_context())).ask(1)
        async with asyncio.timeout(CLEAN_UP_S):
            await served.server.close()
        silent.writer.transport.abort()


def mutual_context() -> ssl.SSLContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "server.crt", FOLDER / "server.key")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def refusal_of(port: int, context: ssl.SSLContext) -> str:
    """Return the reason that a client gets for the end of its connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            with context.wrap_socket(connection, server_hostname="localhost") as client:
                return f"data: {client.recv(1)!r}"
        except ssl.SSLError as error:
            return error.reason or str(error)


@on_every_loop
async def test_a_client_gets_the_reason_for_a_failed_handshake() -> None:
    newest, older, oldest = client_context(), client_context(), client_context()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with warnings.catch_warnings(action="ignore"):
        oldest.minimum_version = oldest.maximum_version = ssl.TLSVersion.TLSv1_1
    oldest.set_ciphers("ALL:@SECLEVEL=0")
    security = {"SSL": ListenerSecurity(tls=mutual_context)}
    async with serving(names=("SSL",), security=security) as served:
        reasons = [
            await asyncio.to_thread(refusal_of, served.port("SSL"), context)
            for context in (newest, older, oldest)
        ]
        await until(lambda: served.server._quota.total == 0, "the end of the handshakes")
    assert reasons == [
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV1_ALERT_PROTOCOL_VERSION",
    ]


@on_every_loop
async def test_silent_clients_hold_a_bounded_number_of_handshakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_acceptor, "MAX_HANDSHAKES", KEPT_HANDSHAKES)
    async with serving(names=("SSL",), security=SECURED) as served:
        # More in one turn of the loop than it takes to end a handshake.
        silent = await asyncio.gather(*(served.connect("SSL") for _ in range(SILENT_CLIENTS)))
        ended = [asyncio.create_task(until_closed(each.reader)) for each in silent]
        await until(
            lambda: sum(each.done() for each in ended) == SILENT_CLIENTS - KEPT_HANDSHAKES,
            "the end of the other handshakes",
        )
        await until(lambda: served.server._quota.total == KEPT_HANDSHAKES, "their count")
        for each in silent:
            each.writer.transport.abort()
        await asyncio.gather(*ended, return_exceptions=True)


@on_every_loop
async def test_a_flood_from_one_host_ends_no_handshake_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_acceptor, "MAX_HANDSHAKES", KEPT_HANDSHAKES)
    async with serving(names=("SSL",), security=SECURED) as served:
        # The oldest handshake of all, but the only one of its host.
        other = await served.connect("SSL", local_addr=("127.0.0.2", 0))
        flood = await asyncio.gather(*(served.connect("SSL") for _ in range(SILENT_CLIENTS)))
        ended = [asyncio.create_task(until_closed(each.reader)) for each in flood]
        await until(
            lambda: sum(each.done() for each in ended) == SILENT_CLIENTS - KEPT_HANDSHAKES + 1,
            "the end of the other handshakes",
        )
        assert not other.reader.at_eof()
        assert served.server._quota.total == KEPT_HANDSHAKES
        for each in (other, *flood):
            each.writer.transport.abort()
        await asyncio.gather(*ended, return_exceptions=True)


@on_every_loop
async def test_a_handshake_that_is_ended_before_its_first_step_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_acceptor, "MAX_HANDSHAKES", 1)
    async with serving(names=("SSL",), security=SECURED) as served:
        address = ("127.0.0.1", served.port("SSL"))
        # Both are accepted in one turn of the loop.
        with socket.create_connection(address) as first, socket.create_connection(address):
            first.setblocking(False)
            received = await asyncio.get_running_loop().sock_recv(first, 1)
            assert (received, served.server._quota.total) == (b"", 1)


@on_every_loop
async def test_a_listener_that_stops_refuses_connections_at_once() -> None:
    async with serving(names=("SSL",), security=SECURED) as served:
        client = await served.connect("SSL", ssl=client_context())
        await client.ask(1)
        port = served.port("SSL")
        served.server.stop_accepting()
        await until(lambda: not is_listening(port), "a refused connection")
        assert await client.ask(2, b"still here") == b"still here"


class WithoutIpv6:
    """The module `socket` on a system without IPv6, which finds addresses of it all the same."""

    def __getattr__(self, name: str) -> object:
        return getattr(socket, name)

    def socket(self, family: int, kind: int) -> object:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return socket.socket(family, kind)


def server_at(host: str) -> SocketServer:
    limits = NetworkLimits()
    channel = RequestChannel(asyncio.get_running_loop(), echo, limits)
    return SocketServer([Listener("SSL", host, 0)], limits, channel, security=SECURED)


@on_every_loop
async def test_every_interface_of_a_system_without_ipv6_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "socket", WithoutIpv6())
    server = server_at("")
    await server.start()
    try:
        assert is_listening(server.bound_addresses["SSL"][1])
    finally:
        await server.close()
    with pytest.raises(OSError, match="cannot listen on ::1:0: address family not supported"):
        await server_at("::1").start()


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def is_stuck(served: Served) -> bool:
    return any(each._sender.is_blocked for each in served.server._connections)


async def until_closed(reader: asyncio.StreamReader) -> None:
    """Read to the end of the connection, including an alert, if there is one."""
    try:
        await reader.read()
    except ConnectionError:
        return
