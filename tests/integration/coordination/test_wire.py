"""The server over its socket: handshakes, resumed sessions, refusals and commands."""

import json
import socket
import struct

import pytest

from coordination.errors import ErrorCode
from coordination.protocol import frames, jute
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import (
    NO_PASSWORD,
    OPEN_ACL,
    AuthRequest,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    OpCode,
    ReadRequest,
)
from monitoring.log_limits import MAX_LINES_PER_HOST
from tests.integration.coordination.conftest import StartCoordinator
from tests.integration.coordination.process import (
    DEADLINE_S,
    Coordinator,
    RawClient,
    four_letter,
    read_to_end,
    session_of,
    wait_until,
)


def test_a_timeout_is_negotiated_within_the_limits(coordinator: Coordinator) -> None:
    for wanted, given in ((1, 200), (5000, 5000), (10**9, 60_000)):
        with RawClient(coordinator.port, wanted) as client:
            answer = client.shake_hands()
            assert answer is not None
            assert isinstance(answer.record, ConnectResponse)
            assert answer.record.time_out == given


def test_an_old_client_gets_a_response_without_the_flag(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        answer = client.shake_hands(read_only=None)
        assert answer is not None
        assert answer.read_only is None


def test_a_resumed_session_closes_its_old_connection(
    coordinator: Coordinator,
) -> None:
    with RawClient(coordinator.port) as old, RawClient(coordinator.port) as new:
        session_id, password = session_of(old.shake_hands())
        assert session_of(new.shake_hands(session_id, password)) == (session_id, password)
        assert old.is_closed()
        assert new.ask(1, OpCode.EXISTS, ReadRequest("/", False))[0].err == 0


@pytest.mark.parametrize("password", [NO_PASSWORD, b"wrong password!!", b""])
def test_a_wrong_password_is_refused_without_effect_on_the_owner(
    coordinator: Coordinator, password: bytes
) -> None:
    with RawClient(coordinator.port) as owner, RawClient(coordinator.port) as thief:
        session_id, _ = session_of(owner.shake_hands())
        assert session_of(thief.shake_hands(session_id, password)) == (0, NO_PASSWORD)
        assert thief.is_closed()
        assert owner.ask(1, OpCode.PING)[0].err == 0


def test_an_unknown_session_is_refused(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        assert session_of(client.shake_hands(12345, b"x" * 16))[0] == 0
        assert client.is_closed()


def test_a_client_that_is_ahead_is_closed_without_a_response(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        assert client.shake_hands(last_zxid=1 << 40) is None


def test_requests_sent_with_the_handshake_are_answered_after_it(
    coordinator: Coordinator,
) -> None:
    with RawClient(coordinator.port) as client:
        request = CreateRequest("/pipelined", b"", OPEN_ACL, 0)
        hello = Handshake(ConnectRequest(0, 0, 5000, 0, NO_PASSWORD), False)
        client.socket.sendall(
            frames.encode_handshake(hello)
            + frames.encode_request(1, OpCode.CREATE, jute.encode(request))
        )
        first, second = client.receive(), client.receive()
        assert first is not None
        assert second is not None
        assert frames.decode_handshake(ConnectResponse, first).read_only is False
        assert struct.unpack_from(">iqi", second)[::2] == (1, 0)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 0x100000) + b"x", id="oversized"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="truncated handshake"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
    ],
)
def test_a_malformed_handshake_closes_the_connection(
    coordinator: Coordinator, garbage: bytes
) -> None:
    with RawClient(coordinator.port) as good, RawClient(coordinator.port) as bad:
        good.shake_hands()
        bad.socket.sendall(garbage)
        assert bad.is_closed()
        assert good.ask(1, OpCode.PING)[0].err == 0


def test_a_flood_of_rejected_connections_does_not_fill_the_log(coordinator: Coordinator) -> None:
    connections = MAX_LINES_PER_HOST + 20
    for _ in range(connections):
        with socket.create_connection(("127.0.0.1", coordinator.port)) as peer:
            peer.sendall(struct.pack(">i", 2) + b"xy")
            assert read_to_end(peer) == b""
    written = coordinator.log.read_text().splitlines()
    lines = [json.loads(line) for line in written if '"connection.rejected"' in line]
    assert len(lines) == MAX_LINES_PER_HOST
    assert {line["client_host"] for line in lines} == {"127.0.0.1"}
    assert lines[-1]["limit_reached"]
    counted = f"zk_connection_rejected_count\t{connections}\n"
    assert counted in four_letter(coordinator.port, "mntr")


def test_requests_after_the_end_of_a_session_are_not_run(coordinator: Coordinator) -> None:
    create = jute.encode(CreateRequest("/orphan", b"", OPEN_ACL, 1))
    with RawClient(coordinator.port) as client, RawClient(coordinator.port) as other:
        client.shake_hands()
        client.socket.sendall(
            frames.encode_request(1, OpCode.CLOSE_SESSION)
            + frames.encode_request(2, OpCode.CREATE, create)
        )
        closed = client.receive()
        assert closed is not None
        assert client.is_closed()
        other.shake_hands()
        missing = other.ask(1, OpCode.EXISTS, ReadRequest("/orphan", False))[0].err
        assert missing == ErrorCode.NO_NODE


def test_an_oversized_request_closes_the_connection_and_keeps_the_session(
    coordinator: Coordinator,
) -> None:
    with RawClient(coordinator.port) as client, RawClient(coordinator.port) as again:
        session = session_of(client.shake_hands())
        client.socket.sendall(struct.pack(">i", 0x100000))
        assert client.is_closed()
        assert session_of(again.shake_hands(*session)) == session


def test_an_incomplete_frame_does_not_block_other_connections(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as slow, RawClient(coordinator.port) as other:
        slow.shake_hands()
        other.shake_hands()
        ping = struct.pack(">iii", 8, -2, OpCode.PING)
        for part in (ping[:3], ping[3:7]):
            slow.socket.sendall(part)
            assert other.ask(1, OpCode.PING)[0].err == 0
        slow.socket.sendall(ping[7:])
        payload = slow.receive()
        assert payload is not None
        assert struct.unpack_from(">i", payload)[0] == -2


def test_a_frame_without_a_header_closes_the_connection(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        client.shake_hands()
        client.socket.sendall(struct.pack(">i", 4) + b"abcd")
        assert client.is_closed()


def test_refused_credentials_close_the_connection_after_the_reply(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        client.shake_hands()
        header, _ = client.ask(-4, OpCode.AUTH, AuthRequest(0, "kerberos", b"x"))
        assert (header.xid, header.err) == (-4, ErrorCode.AUTH_FAILED)
        assert client.is_closed()


def test_every_four_letter_word_gets_a_response(coordinator: Coordinator) -> None:
    with RawClient(coordinator.port) as client:
        session_id, _ = session_of(client.shake_hands())
        client.ask(1, OpCode.CREATE, CreateRequest("/e", b"", OPEN_ACL, 1))
        client.ask(2, OpCode.GET_DATA, ReadRequest("/e", True))
        port = coordinator.port
        assert four_letter(port, "ruok") == "imok"
        assert four_letter(port, "isro") == "rw"
        assert four_letter(port, "srvr").startswith("Zookeeper version: 3.8.0-")
        assert "Mode: standalone" in four_letter(port, "stat")
        assert f"sid={session_id:#x}" in four_letter(port, "cons")
        assert f"{session_id:#x}" in four_letter(port, "dump")
        assert "/e" in four_letter(port, "dump")
        assert "zookeeper.version=3.8.0" in four_letter(port, "envi")
        assert "tickTime=100" in four_letter(port, "conf")
        assert "1 connections watching 1 paths" in four_letter(port, "wchs")
        assert f"/e\n\t{session_id:#x}" in four_letter(port, "wchp")
        assert f"{session_id:#x}\n\t/e" in four_letter(port, "wchc")
        metrics = dict(line.split("\t") for line in four_letter(port, "mntr").splitlines())
        assert int(metrics["zk_ephemerals_count"]) == 1
        assert int(metrics["zk_global_sessions"]) == 1
        assert "reset" in four_letter(port, "srst")
        assert "reset" in four_letter(port, "crst")


def test_connections_per_address_are_limited(start_coordinator: StartCoordinator) -> None:
    port = start_coordinator("--max-connections-per-address=2").port
    with RawClient(port) as one, RawClient(port) as two:
        one.shake_hands()
        two.shake_hands()
        with RawClient(port) as third:
            assert third.is_closed()
    wait_until(lambda: is_served(port))


def is_served(port: int) -> bool:
    """Whether the server accepts a connection; it detects closed ones only when it reads them."""
    with RawClient(port) as client:
        return client.shake_hands() is not None


def test_a_four_letter_word_may_arrive_in_pieces(coordinator: Coordinator) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port), DEADLINE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"ru")
        four_letter(coordinator.port, "isro")
        connection.sendall(b"ok")
        assert read_to_end(connection) == b"imok"


def test_a_client_that_does_not_read_replies_uses_limited_memory(
    coordinator: Coordinator,
) -> None:
    greedy = RawClient(coordinator.port)
    # On a busy machine, the flood takes longer than the default timeout of a silent session.
    other = RawClient(coordinator.port, timeout_ms=60_000)
    with greedy, other:
        greedy.shake_hands()
        other.shake_hands()
        other.ask(1, OpCode.CREATE, CreateRequest("/big", bytes(900_000), OPEN_ACL, 0))
        greedy.socket.settimeout(0.2)
        sent = 0
        try:
            while sent < 100_000:
                greedy.send(1, OpCode.GET_DATA, ReadRequest("/big", False))
                sent += 1
        except (TimeoutError, ConnectionError):
            pass
        assert other.ask(2, OpCode.PING)[0].err == 0
        metrics = dict(
            line.split("\t") for line in four_letter(coordinator.port, "mntr").splitlines()
        )
        assert int(metrics["zk_resident_bytes"]) < 400_000_000


def test_a_connection_without_handshake_is_not_a_session(coordinator: Coordinator) -> None:
    with socket.create_connection(("127.0.0.1", coordinator.port)):
        wait_until(lambda: "zk_num_alive_connections\t2" in four_letter(coordinator.port, "mntr"))
        assert "zk_global_sessions\t0" in four_letter(coordinator.port, "mntr")
