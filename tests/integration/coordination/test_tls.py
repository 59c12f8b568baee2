"""The TLS listener, and the client over TLS."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from coordination.client import Client
from coordination.errors import ConnectionLossError
from tests.certificates import needs_openssl, self_signed
from tests.integration.coordination.conftest import StartCoordinator
from tests.integration.coordination.process import DEADLINE_S
from tests.ports import free_port

pytestmark = needs_openssl


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for 127.0.0.1, and its key."""
    made = self_signed(tmp_path)
    return made.certificate, made.key


def client_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    if key is not None:
        context.load_cert_chain(certificate, key)
    return context


async def test_a_session_over_tls_requires_the_client_certificate(
    start_coordinator: StartCoordinator, certificate: tuple[Path, Path]
) -> None:
    port = free_port()
    cert, key = certificate
    start_coordinator(
        f"--tls-listen=127.0.0.1:{port}",
        f"--tls-cert={cert}",
        f"--tls-key={key}",
        f"--tls-ca={cert}",
    )
    async with Client(f"127.0.0.1:{port}", tls=client_context(cert, key)) as client:
        await client.create("/secure", b"1")
        await asyncio.gather(*[client.set_data("/secure", bytes(10_000)) for _ in range(100)])
        assert (await client.get_data("/secure"))[1].version == 100
    anonymous = Client(f"127.0.0.1:{port}", tls=client_context(cert, None), session_timeout_ms=500)
    with pytest.raises(ConnectionLossError):
        await anonymous.connect(timeout_s=1)


async def test_a_connection_without_tls_handshake_counts_and_times_out(
    start_coordinator: StartCoordinator, certificate: tuple[Path, Path]
) -> None:
    port = free_port()
    cert, key = certificate
    start_coordinator(
        f"--tls-listen=127.0.0.1:{port}",
        f"--tls-cert={cert}",
        f"--tls-key={key}",
        "--max-connections-per-address=2",
        "--handshake-timeout=1000",
    )
    address = ("127.0.0.1", port)
    with (
        socket.create_connection(address, timeout=DEADLINE_S) as one,
        socket.create_connection(address, timeout=DEADLINE_S) as two,
        socket.create_connection(address, timeout=DEADLINE_S) as third,
    ):
        assert third.recv(1) == b"", "two handshakes are pending already"
        # Both are closed after the handshake timeout, and no longer count.
        assert (one.recv(1), two.recv(1)) == (b"", b"")
    async with Client(f"127.0.0.1:{port}", tls=client_context(cert, None)) as client:
        assert await client.exists("/") is not None
