"""The SASL exchange of one connection: `broker.security.sasl_exchange`."""

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from broker.security.sasl_exchange import (
    LEGAL,
    MAX_FRAMES,
    OTHER_USER,
    Answer,
    ExchangeState,
    OfferedMechanism,
    SaslExchange,
    Step,
)
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import RequestHeader, decode_response_header, encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafkawire.sasl_oauth_server import AcceptedToken, OAuthBearerServer, TokenError
from kafkawire.sasl_servers import PlainServer
from kafkawire.schema import decode

USERS = {"alice": "s3cret", "bob": "other"}
ALICE = b"\0alice\0s3cret"
LIFETIME_MS = 5000


class TwoSteps:
    """A mechanism with two messages."""

    def __init__(self, lifetime_ms: int | None = None) -> None:
        self.user: str | None = None
        self.lifetime_ms = lifetime_ms
        self.uses_token = False
        self._is_first = True

    def answer(self, message: bytes) -> bytes:
        if not self._is_first:
            self.user = message.decode()
        self._is_first = False
        return b"answer to " + message


def refuse(_token: str) -> AcceptedToken:
    raise TokenError("the token has expired")


class Client:
    """Sends requests to an exchange, as the first ones of a connection."""

    def __init__(self, *, lifetime_ms: int = 0, credential_ms: int | None = None) -> None:
        offered = {
            "PLAIN": OfferedMechanism(begin=lambda: PlainServer(USERS), max_reauth_ms=lifetime_ms),
            "TWO": OfferedMechanism(
                begin=lambda: TwoSteps(credential_ms), max_reauth_ms=lifetime_ms
            ),
            "OAUTHBEARER": OfferedMechanism(begin=lambda: OAuthBearerServer(refuse)),
        }
        self.api_versions: object = ApiVersionsResponse()
        self.exchange = SaslExchange(offered, self._describe)

    def _describe(self, header: RequestHeader, _body: memoryview) -> tuple[RequestHeader, object]:
        # As the handler does for a version that it does not serve.
        is_served = 0 <= header.api_version <= 4
        return (header if is_served else replace(header, api_version=0)), self.api_versions

    def send(self, key: ApiKey, version: int, message: object) -> Step:
        frame = encode_request(key, version, 7, "me", message)
        return self.exchange.receive(frame[4:])

    def ask(self, key: ApiKey, version: int, message: object) -> tuple[Any, str]:
        """Return the response, and the failure."""
        step = self.send(key, version, message)
        if not step.output:
            return None, step.failure
        assert int.from_bytes(step.output[:4], "big") == len(step.output) - 4
        number, start = decode_response_header(key, version, step.output[4:])
        assert number == 7
        return decode(APIS[key].response, step.output[4 + start :], version), step.failure

    def versions(self) -> tuple[Any, str]:
        return self.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())

    def choose(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[Any, str]:
        message = SaslHandshakeRequest(mechanism=mechanism)
        return self.ask(ApiKey.SASL_HANDSHAKE, version, message)

    def token(self, token: bytes = ALICE, version: int = 2) -> tuple[Any, str]:
        message = SaslAuthenticateRequest(auth_bytes=token)
        return self.ask(ApiKey.SASL_AUTHENTICATE, version, message)

    @property
    def state(self) -> ExchangeState:
        return self.exchange.state


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_that_asks_for_the_versions_first_is_authenticated(version: int) -> None:
    client = Client()
    assert client.versions() == (ApiVersionsResponse(), "")
    handshake, failure = client.choose()
    assert (handshake.error_code, handshake.mechanisms, failure) == (
        0,
        ["PLAIN", "TWO", "OAUTHBEARER"],
        "",
    )
    response, failure = client.token(version=version)
    assert (response.error_code, response.auth_bytes, failure) == (0, b"", "")
    assert (client.state, client.exchange.user) == (ExchangeState.READY, "alice")


def test_a_mechanism_may_need_several_tokens() -> None:
    client = Client()
    client.choose("TWO")
    response, failure = client.token(b"one")
    assert (response.auth_bytes, failure) == (b"answer to one", "")
    assert client.state is ExchangeState.TOKEN
    client.token(b"carol")
    assert (client.state, client.exchange.user) == (ExchangeState.READY, "carol")


def test_the_lifetime_of_the_session_is_announced_with_the_last_token() -> None:
    client = Client(lifetime_ms=LIFETIME_MS)
    client.choose()
    assert client.token()[0].session_lifetime_ms == LIFETIME_MS
    assert client.exchange.lifetime_ms == LIFETIME_MS


@pytest.mark.parametrize(
    ("listener_ms", "credential_ms", "session_ms"),
    [(0, None, 0), (5, None, 5), (0, 7, 7), (5, 7, 5), (7, 5, 5)],
)
def test_a_session_ends_with_the_credential_of_its_user(
    listener_ms: int, credential_ms: int | None, session_ms: int
) -> None:
    client = Client(lifetime_ms=listener_ms, credential_ms=credential_ms)
    client.choose("TWO")
    assert client.token(b"one")[0].session_lifetime_ms == 0
    assert client.token(b"carol")[0].session_lifetime_ms == session_ms
    assert client.exchange.lifetime_ms == session_ms


@pytest.mark.parametrize("acknowledgement", [b"\x01", b"x"])
def test_a_refused_token_is_explained_twice(acknowledgement: bytes) -> None:
    client = Client()
    client.choose("OAUTHBEARER")
    response, failure = client.token(b"n,,\x01auth=Bearer x\x01\x01")
    assert (response.error_code, response.session_lifetime_ms, failure) == (0, 0, "")
    assert response.auth_bytes == b'{"status":"invalid_token"}'
    response, failure = client.token(acknowledgement)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == '{"status":"invalid_token"}'
    assert failure == "OAUTHBEARER: the token has expired"
    assert client.state is ExchangeState.CLOSED


def test_a_client_may_ask_for_the_versions_again_after_an_error() -> None:
    client = Client()
    client.api_versions = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert client.versions()[1] == ""
    client.api_versions = ApiVersionsResponse()
    assert client.versions()[1] == ""
    assert client.versions() == (None, "API_VERSIONS before authentication")
    assert client.state is ExchangeState.CLOSED


def test_versions_that_cannot_be_decoded_end_the_exchange() -> None:
    client = Client()
    client.api_versions = None
    assert client.versions() == (None, "ApiVersions cannot be decoded")


def test_an_unknown_mechanism_is_answered_with_the_offered_ones() -> None:
    client = Client()
    response, failure = client.choose("GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "TWO", "OAUTHBEARER"]
    assert failure == "the mechanism 'GSSAPI' is not offered"


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0carol\0s3cret", b"", b"x"])
def test_wrong_credentials_are_refused_alike(token: bytes) -> None:
    client = Client()
    client.choose()
    response, failure = client.token(token)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert failure.startswith("PLAIN: ")
    assert client.state is ExchangeState.CLOSED
    assert "wrong" not in failure


def test_a_second_handshake_is_out_of_order() -> None:
    client = Client()
    client.choose()
    response, failure = client.choose()
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert failure == "SASL_HANDSHAKE before authentication"


@pytest.mark.parametrize(
    ("states", "key"),
    list(itertools.product(["", "v", "vh", "h"], [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH])),
)
def test_no_other_request_passes(states: str, key: ApiKey) -> None:
    client = Client()
    for state in states:
        client.versions() if state == "v" else client.choose()
    frame = encode_request(ApiKey.METADATA, 1, 7, "me", MetadataRequest(topics=[]))[4:]
    step = client.exchange.receive(int(key).to_bytes(2, "big") + frame[2:])
    assert step == Step(failure=f"{key.name} before authentication")
    assert client.state is ExchangeState.CLOSED


def test_a_token_needs_a_mechanism() -> None:
    assert Client().token() == (None, "SASL_AUTHENTICATE before authentication")


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.SASL_HANDSHAKE, 2), (ApiKey.SASL_AUTHENTICATE, 3)]
)
def test_unknown_versions_are_refused(key: ApiKey, version: int) -> None:
    client = Client()
    if key is ApiKey.SASL_AUTHENTICATE:
        client.choose()
    head = int(key).to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff\0\0\0"
    assert client.exchange.receive(head).failure == f"{key.name} version {version} is not served"


# Tokens without headers, after version 0 of the handshake.


def test_raw_tokens_are_answered_raw() -> None:
    client = Client()
    client.choose("TWO", version=0)
    assert client.exchange.receive(b"one") == Step(output=b"\0\0\0\x0danswer to one")
    client.exchange.receive(b"carol")
    assert client.state is ExchangeState.READY


def test_a_raw_failure_is_not_answered() -> None:
    client = Client()
    client.choose(version=0)
    step = client.exchange.receive(b"\0alice\0wrong")
    assert (step.output, step.failure[:6]) == (b"", "PLAIN:")
    assert client.state is ExchangeState.CLOSED


# Renewal.


def renewed(client: Client, mechanism: str, token: bytes) -> Answer:
    client.exchange.choose(mechanism, 1)
    assert client.exchange.is_pending
    return client.exchange.authenticate(token)


def test_a_session_is_renewed_by_the_same_user() -> None:
    client = Client(lifetime_ms=LIFETIME_MS)
    client.choose()
    client.token()
    answer = renewed(client, "PLAIN", ALICE)
    assert not answer.failure
    assert not client.exchange.is_pending
    assert client.state is ExchangeState.READY


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", b"\0bob\0other", OTHER_USER),
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("TWO", b"alice", "Authentication failed during authentication due to invalid credentials"),
    ],
)
def test_another_user_password_or_mechanism_does_not_renew(
    mechanism: str, token: bytes, text: str
) -> None:
    client = Client(lifetime_ms=LIFETIME_MS)
    client.choose()
    client.token()
    answer = renewed(client, mechanism, token)
    assert answer.failure
    message: Any = answer.message
    assert message.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert message.error_message.startswith(text)
    assert client.exchange.user == "alice"
    assert not client.exchange.is_pending


def test_a_renewal_needs_a_lifetime_and_some_time() -> None:
    client = Client(lifetime_ms=LIFETIME_MS)
    client.choose()
    client.token()
    client.exchange.authenticated_at_s = 10.0
    assert [client.exchange.may_renew(now_s) for now_s in (10.5, 11.0)] == [False, True]
    client.exchange.lifetime_ms = 0
    assert not client.exchange.may_renew(99.0)


@pytest.mark.parametrize("mechanism", ["PLAIN", "unknown"])
def test_a_failed_renewal_is_the_last_one(mechanism: str) -> None:
    client = Client(lifetime_ms=LIFETIME_MS)
    client.choose()
    client.token()
    answer = client.exchange.choose(mechanism, 1)
    if not answer.failure:
        answer = client.exchange.authenticate(b"\0alice\0wrong")
    assert answer.failure
    assert not client.exchange.is_pending
    assert not client.exchange.may_renew(99.0)


# Hostile clients.


def test_the_number_of_frames_is_limited() -> None:
    client = Client()
    client.api_versions = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    for _ in range(MAX_FRAMES):
        assert client.versions()[1] == ""
    assert "not authenticated after" in client.versions()[1]


def test_only_three_requests_are_legal_before_authentication() -> None:
    allowed = {key for state in LEGAL if state is not ExchangeState.READY for key in LEGAL[state]}
    assert allowed == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.mark.fresh_seeds(20)
def test_random_bytes_never_authenticate(seed: int) -> None:
    rng = random.Random(seed)
    good = [
        encode_request(ApiKey.API_VERSIONS, 3, 1, "me", ApiVersionsRequest())[4:],
        encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "me", SaslHandshakeRequest(mechanism="PLAIN"))[
            4:
        ],
        encode_request(ApiKey.SASL_HANDSHAKE, 0, 1, "me", SaslHandshakeRequest(mechanism="PLAIN"))[
            4:
        ],
        encode_request(
            ApiKey.SASL_AUTHENTICATE, 2, 1, "me", SaslAuthenticateRequest(auth_bytes=b"\0a\0b")
        )[4:],
    ]
    for _ in range(100):
        client = Client()
        for _ in range(MAX_FRAMES + 1):
            frame = bytearray(rng.choice(good))
            for _ in range(rng.choice((0, 0, 1, 3))):
                frame[rng.randrange(len(frame))] = rng.randrange(256)
            step = client.exchange.receive(bytes(frame[: rng.randrange(len(frame) * 2)]))
            assert client.state is not ExchangeState.READY
            if step.failure:
                assert client.state is ExchangeState.CLOSED
                break
        else:
            raise AssertionError("the exchange does not end")
