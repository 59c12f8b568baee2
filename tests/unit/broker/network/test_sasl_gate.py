"""The gate of a SASL listener, on a loop and a socket in memory: `broker.network.sasl_gate`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.handlers.sasl import RenewalHandler
from broker.network import sasl_gate
from broker.network.connection_gate import ListenerSecurity
from broker.network.frame_receiver import LARGE_FRAME_BYTES
from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.sasl_gate import AUTHENTICATION_TIMEOUT_S, GateSettings, SaslGate
from broker.security.principal import ANONYMOUS, Principal
from broker.security.sasl_exchange import OfferedMechanism
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.sasl_servers import PlainServer
from kafkawire.schema import decode
from kafkawire.units import KIB
from tests.unit.broker.network_fakes import Client, World, nothing_left, request_frame

DELAY_S = 0.1
MAX_FRAME_BYTES = 512 * 1024
ALICE = Principal("User", "alice")


def versions(correlation_id: int = 1) -> bytes:
    return encode_request(ApiKey.API_VERSIONS, 3, correlation_id, "me", ApiVersionsRequest())


def handshake(correlation_id: int = 2, mechanism: str = "PLAIN", version: int = 1) -> bytes:
    message = SaslHandshakeRequest(mechanism=mechanism)
    return encode_request(ApiKey.SASL_HANDSHAKE, version, correlation_id, "me", message)


def token(correlation_id: int = 3, text: bytes = b"\0alice\0s3cret") -> bytes:
    message = SaslAuthenticateRequest(auth_bytes=text)
    return encode_request(ApiKey.SASL_AUTHENTICATE, 1, correlation_id, "me", message)


class Secured(World):
    """A world whose listener has SASL, and whose handlers echo."""

    def __init__(
        self,
        *,
        lifetime_ms: int = 0,
        is_open: bool = True,
        limits: NetworkLimits | None = None,
    ) -> None:
        super().__init__(limits, handle=self._answer, is_open=is_open)
        self.principals: list[Principal] = []
        begin = partial(PlainServer, {"alice": "s3cret", "bob": "other"})
        self.settings = GateSettings(
            loop=self.loop.as_loop,
            handle=self._answer,
            metrics=self.channel.metrics,
            offered={"PLAIN": OfferedMechanism(begin=begin, max_reauth_ms=lifetime_ms)},
            max_frame_bytes=MAX_FRAME_BYTES,
            failure_delay_s=DELAY_S,
        )
        self.renewals = RenewalHandler(self.loop.as_loop, DELAY_S)

    def open_connection(self) -> Client:
        return self.connect(security=ListenerSecurity(make_gate=partial(SaslGate, self.settings)))

    def log_in(self) -> Client:
        client = self.open_connection()
        client.send(versions() + handshake() + token())
        self.loop.run()
        client.transport.sent.clear()
        return client

    def _answer(self, request: Request) -> Reply:
        key = request.header.api_key
        self.principals.append(request.principal)
        if key == ApiKey.API_VERSIONS:
            return Reply(ApiVersionsResponse())
        if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            message: Any = decode(APIS[key].request, request.body, request.header.api_version)
            if key == ApiKey.SASL_HANDSHAKE:
                return self.renewals.choose(request, message)
            return self.renewals.authenticate(request, message)
        return Reply(EncodedMessage(bytes(request.body)))


def answer_of(client: Client, key: ApiKey, version: int = 1) -> Any:
    """Return the last response."""
    return decode(APIS[key].response, client.responses[-1][1], version)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
@pytest.mark.parametrize("is_open", [True, False])
def test_requests_behind_the_token_are_served_in_order(chunk_bytes: int, is_open: bool) -> None:
    world = Secured(is_open=is_open)
    client = world.open_connection()
    data = versions() + handshake() + token() + request_frame(4, b"four") + request_frame(5)
    sent = client.send(data, chunk_bytes)
    world.loop.run()
    if not is_open:
        assert [number for number, _ in client.responses] == [1, 2, 3], "early, unlike others"
        world.channel.open()
        world.loop.run()
        client.send(data[sent:], chunk_bytes)
        world.loop.run()
    assert [number for number, _ in client.responses] == [1, 2, 3, 4, 5]
    assert client.responses[3] == (4, b"four")
    assert world.principals == [ANONYMOUS, ALICE, ALICE]
    assert client.processor.principal == ALICE
    assert world.channel.metrics.authentications == 1


def test_nothing_is_served_before_authentication() -> None:
    world = Secured()
    client = world.open_connection()
    with capture_logs() as logs:
        client.send(versions() + request_frame(9) + handshake() + token())
        world.loop.run()
        world.loop.pass_time(DELAY_S)
    assert [number for number, _ in client.responses] == [1]
    assert world.handled == []
    assert client.transport.is_closing
    [event] = [each for each in logs if each["event"] == "connection.dropped"]
    assert event["reason"] == "authentication failed: PRODUCE before authentication"


def test_wrong_credentials_are_answered_after_the_delay() -> None:
    world = Secured()
    client = world.open_connection()
    client.send(handshake() + token(text=b"\0alice\0wrong") + request_frame(9))
    world.loop.run()
    world.loop.pass_time(DELAY_S / 2)
    assert [number for number, _ in client.responses] == [2]
    assert not client.transport.is_reading
    world.loop.pass_time(DELAY_S)
    response = answer_of(client, ApiKey.SASL_AUTHENTICATE)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.transport.is_closing
    assert world.channel.metrics.authentications_failed == 1
    assert world.handled == []


def test_a_client_that_reads_slowly_gets_its_refusal_before_the_end() -> None:
    world = Secured()
    client = world.open_connection()
    client.transport.room = 0
    client.send(handshake() + token(text=b"x"))
    assert not client.transport.is_reading
    world.loop.pass_time(DELAY_S)
    assert not client.transport.is_closing
    client.transport.drain()
    world.loop.run()
    assert [number for number, _ in client.responses] == [2, 3]
    assert client.transport.is_closing


@pytest.mark.parametrize("end", ["lost", "stopped"])
def test_the_end_of_a_connection_during_the_delay_is_final(end: str) -> None:
    world = Secured()
    client = world.open_connection()
    with nothing_left(world):
        client.send(handshake() + token(text=b"x"))
        if end == "lost":
            client.processor.connection_lost(None)
        else:
            client.processor.finish()
            world.loop.run()
            assert client.transport.is_closing
        world.loop.pass_time(DELAY_S)
        assert [number for number, _ in client.responses] == [2]


def test_a_silent_client_is_closed_in_time() -> None:
    world = Secured()
    client = world.open_connection()
    client.send(versions())
    world.loop.pass_time(AUTHENTICATION_TIMEOUT_S / 2)
    ends = [client.transport.is_closing]
    world.loop.pass_time(AUTHENTICATION_TIMEOUT_S / 2)
    ends.append(client.transport.is_closing)
    assert ends == [False, True]
    user = world.log_in()
    world.loop.pass_time(AUTHENTICATION_TIMEOUT_S)
    assert not user.transport.is_closing


def test_the_oldest_unauthenticated_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_gate, "MAX_WAITING", 2)
    world = Secured()
    clients = [world.open_connection() for _ in range(3)]
    assert [each.transport.is_closing for each in clients] == [True, False, False]
    for client in clients[1:]:
        client.send(handshake() + token())
    assert not world.settings.waiting


def test_a_large_frame_is_refused_until_the_client_is_authenticated() -> None:
    world = Secured()
    large = request_frame(4, bytes(MAX_FRAME_BYTES))
    with nothing_left(world):
        client = world.open_connection()
        client.send(large)
        world.loop.run()
        assert client.transport.is_closing
        user = world.log_in()
        user.send(large)
        world.loop.run()
        assert [number for number, _ in user.responses] == [4]
        user.processor.connection_lost(None)


def test_a_large_frame_in_pieces_is_handed_to_the_gate_once() -> None:
    world = Secured()
    with nothing_left(world):
        client = world.open_connection()
        client.send(handshake())
        client.send(token(text=bytes(2 * LARGE_FRAME_BYTES)), 10_000)
        assert not client.transport.is_reading
        world.loop.pass_time(DELAY_S)
        assert answer_of(client, ApiKey.SASL_AUTHENTICATE).error_code == 58


def test_unauthenticated_clients_cannot_fill_the_receive_memory() -> None:
    size_bytes = 300 * KIB
    limits = NetworkLimits(
        socket_request_max_bytes=size_bytes + 100, queued_max_request_bytes=4 * size_bytes
    )
    world = Secured(limits=limits)
    for _ in range(8):
        world.open_connection().send(request_frame(4, bytes(size_bytes))[:-1])
    world.loop.run()
    user = world.log_in()
    user.send(request_frame(5, bytes(size_bytes)))
    world.loop.run()
    assert [number for number, _ in user.responses] == [5]


# Renewal of sessions.


def test_a_session_ends_with_its_lifetime() -> None:
    world = Secured(lifetime_ms=5000)
    client = world.log_in()
    world.loop.pass_time(4.9)
    client.send(request_frame(4))
    world.loop.run()
    assert [number for number, _ in client.responses] == [4]
    world.loop.pass_time(0.2)
    with capture_logs() as logs:
        client.send(request_frame(5))
        world.loop.run()
    assert [number for number, _ in client.responses] == [4]
    assert client.transport.is_closing
    assert logs[0]["reason"] == "the session has expired"


def test_a_renewed_session_lasts_longer() -> None:
    world = Secured(lifetime_ms=5000)
    client = world.log_in()
    world.loop.pass_time(4.5)
    client.send(handshake(10) + token(11) + request_frame(12))
    world.loop.run()
    assert [number for number, _ in client.responses] == [10, 11, 12]
    world.loop.pass_time(4.5)
    client.send(request_frame(13))
    world.loop.run()
    assert client.responses[-1][0] == 13


def test_an_expired_session_can_still_be_renewed() -> None:
    world = Secured(lifetime_ms=5000)
    client = world.log_in()
    world.loop.pass_time(6.0)
    client.send(handshake(10) + token(11))
    world.loop.run()
    client.send(request_frame(12))
    world.loop.run()
    assert [number for number, _ in client.responses] == [10, 11, 12]


@pytest.mark.parametrize("text", [b"\0bob\0other", b"\0alice\0wrong"])
def test_a_failed_renewal_is_answered_after_the_delay(text: bytes) -> None:
    world = Secured(lifetime_ms=5000)
    client = world.log_in()
    world.loop.pass_time(2.0)
    client.send(handshake(10) + token(11, text) + request_frame(12))
    world.loop.run()
    assert client.responses[-1][0] == 10
    world.loop.pass_time(DELAY_S)
    # The later request has arrived within the session.
    assert [number for number, _ in client.responses] == [10, 11, 12]
    response = decode(SaslAuthenticateResponse, client.responses[1][1], 1)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.transport.is_closing
    assert client.processor.principal == ALICE


def test_a_failed_renewal_ends_the_attempts_of_its_connection() -> None:
    """Otherwise a client could try a hundred passwords of other users within one delay."""
    world = Secured(lifetime_ms=5000)
    client = world.log_in()
    world.loop.pass_time(2.0)
    first = handshake(10) + token(11, b"\0bob\0wrong")
    second = handshake(12) + token(13, b"\0bob\0other")
    client.send(first + second + request_frame(14))
    world.loop.run()
    world.loop.pass_time(DELAY_S)
    assert [number for number, _ in client.responses] == [10, 11, 12, 13, 14]
    refused = decode(SaslHandshakeResponse, client.responses[2][1], 1)
    not_tried = decode(SaslAuthenticateResponse, client.responses[3][1], 1)
    assert [refused.error_code, not_tried.error_code] == [ErrorCode.ILLEGAL_SASL_STATE] * 2
    assert client.transport.is_closing


@pytest.mark.parametrize("lifetime_ms", [0, 5000])
def test_a_session_without_lifetime_or_age_is_not_renewed(lifetime_ms: int) -> None:
    world = Secured(lifetime_ms=lifetime_ms)
    client = world.log_in()
    client.send(handshake(10))
    world.loop.run()
    assert answer_of(client, ApiKey.SASL_HANDSHAKE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.send(token(11))
    world.loop.run()
    assert answer_of(client, ApiKey.SASL_AUTHENTICATE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.send(request_frame(12))
    world.loop.run()
    assert client.responses[-1][0] == 12


def test_a_plain_connection_has_no_session() -> None:
    world = Secured()
    client = world.connect()
    client.send(handshake(10))
    world.loop.run()
    assert answer_of(client, ApiKey.SASL_HANDSHAKE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.send(token(11))
    world.loop.run()
    assert answer_of(client, ApiKey.SASL_AUTHENTICATE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.processor.principal == ANONYMOUS
