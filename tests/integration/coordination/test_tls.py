"""The TLS listener, and the client over TLS."""

import asyncio
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from coordination.client import Client, SessionState
from coordination.errors import ConnectionLossError, NoAuthError, OperationError
from coordination.protocol.messages import Acl
from tests.certificates import Authority, Certificate, needs_openssl, self_signed
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


def tls_options(port: int, own: Certificate, authority: Authority, *more: str) -> list[str]:
    return [
        f"--tls-listen=127.0.0.1:{port}",
        f"--tls-cert={own.certificate}",
        f"--tls-key={own.key}",
        f"--tls-ca={authority.own.certificate}",
        *more,
    ]


async def test_a_certificate_is_an_identity(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority, port = Authority.make(tmp_path), free_port()
    alice, ops = authority.issue("alice", "/O=Org/CN=alice"), authority.issue("ops")
    coordinator = start_coordinator(
        *tls_options(port, authority.issue("server"), authority, "--x509-super-user=CN=ops")
    )
    own = (Acl(31, "auth", ""),)
    async with Client(f"127.0.0.1:{port}", tls=authority.context(alice)) as client:
        await client.create("/own", b"1", acl=own)
        acl, _ = await client.get_acl("/own")
        assert acl == (Acl(31, "x509", "CN=alice,O=Org"),)
    async with Client(f"127.0.0.1:{port}", tls=authority.context(ops)) as client:
        assert (await client.get_data("/own"))[0] == b"1"
    async with Client(coordinator.address) as client:
        with pytest.raises(NoAuthError):
            await client.get_data("/own")


def test_a_client_without_a_certificate_gets_the_reason(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority, port = Authority.make(tmp_path), free_port()
    start_coordinator(*tls_options(port, authority.issue("server"), authority))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection,
        pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
        authority.context().wrap_socket(connection, server_hostname="localhost") as client,
    ):
        client.recv(1)


async def test_an_optional_certificate_must_be_valid(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority, stranger = Authority.make(tmp_path), Authority.make(tmp_path, "stranger")
    port, bob = free_port(), authority.issue("bob")
    start_coordinator(
        *tls_options(port, authority.issue("server"), authority, "--tls-client-auth=want"),
        "--enforce-auth-schemes=x509",
    )
    address = f"127.0.0.1:{port}"
    async with Client(address, tls=authority.context(bob)) as client:
        assert await client.exists("/") is not None
    wrong = ssl.create_default_context(cafile=str(authority.own.certificate))
    eve = stranger.issue("eve")
    wrong.load_cert_chain(eve.certificate, eve.key)
    anonymous = Client(address, tls=authority.context(), session_timeout_ms=1000)
    await anonymous.connect()
    with pytest.raises(OperationError, match="session_closed_require_sasl"):
        await anonymous.exists("/")
    await anonymous.abandon()
    with pytest.raises(ConnectionLossError):
        await Client(address, tls=wrong, session_timeout_ms=1000).connect(timeout_s=1)


async def test_a_new_certificate_is_served_without_a_restart(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority, port = Authority.make(tmp_path), free_port()
    own, user = authority.issue("server"), authority.issue("user")
    coordinator = start_coordinator(*tls_options(port, own, authority))
    address = f"127.0.0.1:{port}"

    def served() -> bytes:
        context = authority.context(user)
        with (
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            certificate = connection.getpeercert(binary_form=True)
            assert certificate is not None
            return certificate

    async with Client(address, tls=authority.context(user)) as client:
        before = served()
        # Half of a change: the new key does not fit the old certificate.
        new = authority.issue("next")
        own.key.write_bytes(new.key.read_bytes())
        assert served() == before
        own.certificate.write_bytes(new.certificate.read_bytes())
        after = served()
        assert after != before
        assert after == ssl.PEM_cert_to_DER_cert(new.certificate.read_text())
        assert await client.exists("/") is not None, "the connection was lost"
        assert client.state is SessionState.CONNECTED
    log = coordinator.log.read_text()
    assert (log.count("certificate.not_reloaded"), log.count("certificate.reloaded")) == (1, 1)


def test_the_start_names_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    own, other = authority.issue("one"), authority.issue("two")
    absent = tmp_path / "absent"
    for options, message in (
        ([f"--tls-cert={own.certificate}", f"--tls-key={other.key}"], "key values mismatch"),
        ([f"--tls-cert={absent}", f"--tls-key={other.key}"], f"cannot use {absent}"),
        (
            [f"--tls-cert={own.certificate}", f"--tls-key={own.key}", f"--tls-ca={own.key}"],
            f"cannot use {own.key}",
        ),
        (
            [
                f"--tls-cert={own.certificate}",
                f"--tls-key={own.key}",
                f"--tls-key-password-file={absent}",
            ],
            f"cannot use {absent}",
        ),
    ):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "coordination",
                "--listen=127.0.0.1:0",
                "--tls-listen=127.0.0.1:0",
                f"--data-dir={tmp_path / 'data'}",
                *options,
            ],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_an_encrypted_key_is_read_with_its_password(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority = Authority.make(tmp_path)
    own, encrypted = authority.issue("server"), tmp_path / "encrypted.key"
    convert = ["openssl", "pkcs8", "-topk8", "-in", str(own.key), "-out", str(encrypted)]
    subprocess.run([*convert, "-passout", "pass:key-s3cret"], check=True, capture_output=True)
    (tmp_path / "password").write_text("key-s3cret\n")
    options = [
        "--tls-listen=127.0.0.1:0",
        f"--tls-cert={own.certificate}",
        f"--tls-key={encrypted}",
    ]
    start_coordinator(*options, f"--tls-key-password-file={tmp_path / 'password'}")


def test_old_tls_weak_ciphers_and_renegotiation_are_refused(
    start_coordinator: StartCoordinator, tmp_path: Path
) -> None:
    authority, port = Authority.make(tmp_path), free_port()
    own = authority.issue("server")
    start_coordinator(
        f"--tls-listen=127.0.0.1:{port}", f"--tls-cert={own.certificate}", f"--tls-key={own.key}"
    )
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2"]
    renewed = subprocess.run(
        command, input="R\n", capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert "no renegotiation" in renewed.stderr
    old = subprocess.run(
        [*command[:-1], "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert "Cipher is (NONE)" in old.stdout
    weak = subprocess.run(
        [*command, "-cipher", "ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA"],
        input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert "Cipher is (NONE)" in weak.stdout
