"""Identities of clients: `coordination.server.authentication`."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordination.errors import ErrorCode
from coordination.protocol import jute
from coordination.protocol.digest_md5 import DigestClient, DigestServer
from coordination.protocol.messages import AuthRequest, OpCode, SaslToken
from coordination.server.authentication import Authentication, LoginReply
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.state.acl import MAX_IDENTITIES, SUPER, Identity, digest_identity

LOCAL = Identity("ip", "127.0.0.1")
USERS = {"bob": "s3cret", "ops": "other"}
NAMES = Path(__file__).parents[2] / "trust" / "golden_distinguished_names.json"
ROW = json.loads(NAMES.read_text())[0]
ALICE: str = ROW["name"]


class Peer:
    """Connection of a client."""

    def __init__(self) -> None:
        self.identities: Sequence[Identity] = (LOCAL,)
        self.exchange: DigestServer | None = None


def rules(**settings: object) -> Authentication:
    return Authentication(CoordinatorConfig(**settings), lambda: "nonce")  # type: ignore[arg-type]


def send(to: Authentication, peer: Peer, token: bytes | None) -> LoginReply:
    return to.log_in(peer, OpCode.SASL, jute.encode(SaslToken(token)), 0)


def token_of(reply: LoginReply) -> bytes | None:
    token: bytes | None = jute.decode(SaslToken, reply.body)[0].token
    return token


def log_in(to: Authentication, peer: Peer, user: str, password: str) -> LoginReply:
    client = DigestClient(user, password, "client")
    challenge = send(to, peer, client.first())
    assert challenge.refusal is None
    assert challenge.identities == peer.identities, "not proven yet"
    return send(to, peer, client.answer(token_of(challenge)))


def test_a_user_of_sasl_gets_an_identity() -> None:
    reply = log_in(rules(users=USERS), Peer(), "bob", "s3cret")
    assert reply.identities == (Identity("sasl", "bob"), LOCAL)
    assert (reply.err, reply.refusal) == (ErrorCode.OK, None)
    assert (token_of(reply) or b"").startswith(b"rspauth=")


def test_a_super_user_bypasses_every_acl() -> None:
    reply = log_in(rules(users=USERS, super_users=frozenset({"ops"})), Peer(), "ops", "other")
    assert reply.identities == (SUPER, Identity("sasl", "ops"), LOCAL)


@pytest.mark.parametrize(
    ("required", "code"),
    [((), ErrorCode.AUTH_FAILED), (("sasl",), ErrorCode.SESSION_CLOSED_REQUIRE_SASL)],
)
def test_a_wrong_password_is_refused(required: tuple[str, ...], code: ErrorCode) -> None:
    reply = log_in(rules(users=USERS, required_schemes=frozenset(required)), Peer(), "bob", "guess")
    assert (reply.err, reply.identities, token_of(reply)) == (code, (), None)
    assert reply.refusal is not None
    assert "guess" not in reply.refusal


def test_an_exchange_cannot_be_repeated() -> None:
    peer, of = Peer(), rules(users=USERS)
    assert log_in(of, peer, "bob", "s3cret").refusal is None
    assert send(of, peer, b"").refusal == "SASL: the exchange is over"


def test_without_users_a_client_continues_without_an_identity() -> None:
    reply = send(rules(), Peer(), b"")
    assert reply == LoginReply(body=jute.encode(SaslToken(None)), identities=(LOCAL,))


def test_too_many_identities_refuse_a_user() -> None:
    peer = Peer()
    peer.identities = [Identity("digest", str(number)) for number in range(MAX_IDENTITIES)]
    reply = log_in(rules(users=USERS), peer, "bob", "s3cret")
    assert reply.refusal == "SASL: the client has too many identities"


def test_credentials_give_an_identity() -> None:
    def auth(scheme: str) -> LoginReply:
        body = jute.encode(AuthRequest(0, scheme, b"bob:secret"))
        return rules().log_in(Peer(), OpCode.AUTH, body, 0)

    assert auth("digest").identities == (digest_identity(b"bob:secret"), LOCAL)
    assert auth("kerberos") == LoginReply(
        ErrorCode.AUTH_FAILED, refusal="the credentials are refused"
    )


def test_a_certificate_gives_an_identity() -> None:
    own = Identity("x509", ALICE)
    certificate = base64.b64decode(ROW["certificate"])
    assert rules().of_certificate((LOCAL,), certificate) == (own, LOCAL)
    found = rules(x509_super_user=ALICE).of_certificate((LOCAL,), certificate)
    assert found == (Identity("super", ALICE), own, LOCAL)


def test_a_required_scheme_is_sufficient_and_no_other() -> None:
    open_to_all, closed = rules(), rules(users=USERS, required_schemes=frozenset({"sasl", "x509"}))
    assert open_to_all.is_sufficient((LOCAL,))
    assert not closed.is_sufficient((LOCAL, SUPER, Identity("digest", "bob:x")))
    assert closed.is_sufficient((LOCAL, Identity("x509", ALICE)))
