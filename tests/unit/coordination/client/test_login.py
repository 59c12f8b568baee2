"""The login in the handshake of a connection: `coordination.client.login`."""

import pytest

from coordination.client.login import XID, Login, LoginExchange
from coordination.errors import ErrorCode, JuteError, SaslError
from coordination.protocol import frames, jute
from coordination.protocol.digest_md5 import DigestServer
from coordination.protocol.frames import FrameSplitter
from coordination.protocol.messages import OpCode, RequestHeader, SaslToken

BROKER = Login(user="broker", password="s3cret")


def exchange() -> LoginExchange:
    return LoginExchange(BROKER, lambda: "client")


def token_in(packet: bytes) -> bytes:
    [payload] = FrameSplitter(10_000).feed(packet)
    header, start = jute.decode(RequestHeader, payload)
    assert header == RequestHeader(XID, OpCode.SASL)
    return jute.decode(SaslToken, payload, start)[0].token or b""


def reply(token: bytes | None, err: int = 0, xid: int = XID) -> bytes:
    return frames.encode_reply(xid, 0, err, jute.encode(SaslToken(token)))[4:]


def test_a_login_ends_with_the_proof_of_the_server() -> None:
    server, client = DigestServer({"broker": "s3cret"}, "server"), exchange()
    proof = client.answer(reply(server.answer(token_in(client.first()))))
    assert proof is not None
    assert client.answer(reply(server.answer(token_in(proof)))) is None
    assert server.user == "broker"


def test_a_refusal_names_the_user_and_not_the_password() -> None:
    with pytest.raises(SaslError, match="refuses the login of user broker") as caught:
        exchange().answer(reply(None, ErrorCode.AUTH_FAILED))
    assert "s3cret" not in f"{caught.value}{BROKER!r}"


def test_a_server_without_users_is_refused() -> None:
    with pytest.raises(SaslError, match="no users"):
        exchange().answer(reply(None))


def test_other_packets_are_refused() -> None:
    with pytest.raises(SaslError, match="other packets"):
        exchange().answer(reply(b"", xid=1))
    with pytest.raises(JuteError):
        exchange().answer(reply(b"")[:-4])
