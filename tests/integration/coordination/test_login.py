"""Logins by DIGEST-MD5, and a coordinator that demands them."""

import asyncio
from pathlib import Path

import pytest

from coordination.client import Client, Login, SessionState
from coordination.client.patterns import end_dead_session, retry_read
from coordination.errors import NoAuthError, OperationError
from coordination.protocol import jute
from coordination.protocol.messages import (
    Acl,
    AuthRequest,
    ConnectResponse,
    OpCode,
    PathRequest,
    SaslToken,
)
from tests.integration.coordination.conftest import StartCoordinator
from tests.integration.coordination.process import Coordinator, RawClient, four_letter, wait_until
from tests.waiting import DEADLINE_S, until

BOB, OPS = Login(user="bob", password="bob-s3cret"), Login(user="ops", password="ops-s3cret")
ENFORCED = "--enforce-auth-schemes=sasl"
OWN = (Acl(31, "auth", ""),)
FLOOD = 200


@pytest.fixture
def login_config(tmp_path: Path) -> Path:
    path = tmp_path / "login.conf"
    path.touch(mode=0o600)
    path.write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
        f'user_bob="{BOB.password}" user_ops="{OPS.password}"; }};'
    )
    return path


@pytest.fixture
def closed(start_coordinator: StartCoordinator, login_config: Path) -> Coordinator:
    """Return a coordinator that serves users only."""
    return start_coordinator(f"--login-config={login_config}", ENFORCED)


async def test_a_user_owns_nodes(start_coordinator: StartCoordinator, login_config: Path) -> None:
    coordinator = start_coordinator(f"--login-config={login_config}", "--super-user=ops")
    async with Client(coordinator.address, login=BOB) as bob:
        await bob.create("/own", b"1", acl=OWN)
        assert (await bob.get_acl("/own"))[0] == (Acl(31, "sasl", "bob"),)
    async with Client(coordinator.address) as anonymous:
        with pytest.raises(NoAuthError):
            await anonymous.get_data("/own")
    async with Client(coordinator.address, login=OPS) as ops:
        assert (await ops.get_data("/own"))[0] == b"1"


async def test_a_wrong_password_is_the_reason_of_the_failure(closed: Coordinator) -> None:
    client = Client(closed.address, login=Login(user="bob", password="s3cret-guess"))
    reason = f"{closed.address}: the server refuses the login of user bob"
    connecting = asyncio.create_task(client.connect(timeout_s=DEADLINE_S))
    await until(lambda: client.failure == reason, "the refusal")
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    await client.abandon()
    refused = "user 'bob' is unknown, or the password is wrong"
    wait_until(lambda: refused in closed.log.read_text())
    log = closed.log.read_text()
    assert "s3cret-guess" not in log
    assert "bob-s3cret" not in log


async def test_a_session_survives_the_restart_of_a_coordinator_with_logins(
    closed: Coordinator,
) -> None:
    async with Client(closed.address, login=BOB, session_timeout_ms=20_000) as client:
        await client.create("/mine", b"", ephemeral=True)
        session_id = client.session_id
        closed.kill()
        closed.start()
        stat = await retry_read(lambda: client.exists("/mine"))
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id == session_id


async def test_the_session_of_a_dead_process_is_ended_with_a_login(
    closed: Coordinator, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    dead = Client(closed.address, login=BOB, session_file_path=path)
    await dead.connect()
    await dead.create("/mine", b"", ephemeral=True)
    await dead.abandon()
    assert not await end_dead_session(path, 1.0), "without the login"
    assert await end_dead_session(path, DEADLINE_S, login=BOB)
    async with Client(closed.address, login=BOB) as client:
        assert await client.exists("/mine") is None


async def test_a_client_without_a_login_can_do_nothing(closed: Coordinator) -> None:
    client = Client(closed.address)
    await client.connect()
    with pytest.raises(OperationError, match="session_closed_require_sasl"):
        await client.exists("/")
    await client.abandon()


def test_a_digest_does_not_replace_the_login(closed: Coordinator) -> None:
    with RawClient(closed.port) as client:
        client.shake_hands()
        assert client.ask(-4, OpCode.AUTH, AuthRequest(0, "digest", b"bob:bob-s3cret"))[0].err == 0
        assert client.ask(1, OpCode.SYNC, PathRequest("/"))[0].err == -124
        assert client.is_closed()


@pytest.mark.parametrize("token", [b"x", b"x" * 5000, bytes(60_000)], ids=len)
def test_a_hostile_token_closes_the_connection(closed: Coordinator, token: bytes) -> None:
    with RawClient(closed.port) as client:
        client.shake_hands()
        header, body = client.ask(1, OpCode.SASL, SaslToken(token))
        assert (header.err, body) == (-124, jute.encode(SaslToken(None)))
        assert client.is_closed()


def test_a_request_that_would_fill_memory_before_the_login_closes_the_connection(
    closed: Coordinator,
) -> None:
    with RawClient(closed.port) as client:
        client.shake_hands()
        client.send(1, OpCode.SASL, SaslToken(bytes(1_000_000)))
        assert client.is_closed()
    assert "before the login" in closed.log.read_text(encoding="utf-8")


def test_the_log_of_a_coordinator_shows_no_password(
    start_coordinator: StartCoordinator, login_config: Path, tmp_path: Path
) -> None:
    digest = tmp_path / "super-digest"
    digest.touch(mode=0o600)
    digest.write_text("super:s3cret-digest")
    coordinator = start_coordinator(
        f"--login-config={login_config}", f"--super-digest-file={digest}"
    )
    tokens = (b"s3cret-token", b'username="bob",response="s3cret-proof"', b'"s3cret-quote')
    for token in tokens:
        with RawClient(coordinator.port) as client:
            client.shake_hands()
            client.ask(1, OpCode.SASL, SaslToken(b""))
            client.ask(2, OpCode.SASL, SaslToken(token))
            assert client.is_closed()
    for auth in (b"super:s3cret-guess", b"s3cret-text", b"\xffs3cret-bytes"):
        with RawClient(coordinator.port) as client:
            client.shake_hands()
            client.ask(-4, OpCode.AUTH, AuthRequest(0, "digest", auth))
    with RawClient(coordinator.port) as client:
        client.shake_hands()
        client.ask(-4, OpCode.AUTH, AuthRequest(0, "s3cret-scheme", b"s3cret-credentials"))
        assert client.is_closed()
    log = coordinator.log.read_text()
    assert coordinator.process is not None
    arguments = Path(f"/proc/{coordinator.process.pid}/cmdline").read_text()
    assert log.count("connection.rejected") >= len(tokens) + 1
    assert "planted" not in log + arguments.replace("super-digest", "")
    assert "-secret" not in log + arguments


def test_a_silent_client_is_closed_in_time(
    start_coordinator: StartCoordinator, login_config: Path
) -> None:
    options = (f"--login-config={login_config}", ENFORCED, "--handshake-timeout=2000")
    coordinator = start_coordinator(*options)
    with RawClient(coordinator.port) as client:
        client.shake_hands()
        assert client.is_closed()
    wait_until(lambda: "no authentication within 2000 ms" in coordinator.log.read_text())


async def test_a_flood_of_failed_logins_leaves_no_session(closed: Coordinator) -> None:
    async with Client(closed.address, login=BOB) as client:
        await asyncio.to_thread(flood, closed.port)
        await until(lambda: sessions(closed) == 1, "the end of the sessions")
        assert await client.exists("/") is not None
        assert client.state is SessionState.CONNECTED


async def test_sessions_of_strangers_end_soon_and_without_a_line(closed: Coordinator) -> None:
    client = Client(closed.address, login=BOB)
    await client.connect(timeout_s=DEADLINE_S)
    await asyncio.to_thread(begin_sessions, closed.port)
    await until(lambda: sessions(closed) == 1, "the end of the sessions")
    await client.abandon()
    await until(lambda: "session.expired" in closed.log.read_text(), "the line about the user")
    assert closed.log.read_text().count("session.expired") == 1


def begin_sessions(port: int) -> None:
    """Begin sessions without a login; resume some on other connections."""
    for number in range(FLOOD):
        with RawClient(port, 60_000) as first, RawClient(port, 60_000) as second:
            begun = first.shake_hands()
            assert begun is not None
            assert isinstance(begun.record, ConnectResponse)
            if number % 2:
                second.shake_hands(begun.record.session_id, begun.record.passwd or b"")


def flood(port: int) -> None:
    for _ in range(FLOOD):
        with RawClient(port, 60_000) as hostile:
            hostile.shake_hands()
            hostile.ask(1, OpCode.SASL, SaslToken(b""))
            hostile.ask(2, OpCode.SASL, SaslToken(b'username="bob"'))


def sessions(coordinator: Coordinator) -> int:
    [line] = [
        line
        for line in four_letter(coordinator.port, "mntr").splitlines()
        if line.startswith("zk_global_sessions")
    ]
    return int(line.split("\t")[1])
