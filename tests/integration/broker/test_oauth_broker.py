"""A broker whose listeners take tokens of OAUTHBEARER, and clients of all libraries."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer

import ottla
from broker.config.oauth_bearer import (
    HANDLER_KEY,
    LOGIN_HANDLER_KEY,
    SIGNED_HANDLERS,
    TOKEN_HANDLERS,
    TOKEN_URL_KEY,
    URL_KEY,
)
from kafkawire.apis import ApiKey
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla.client.errors import AuthenticationFailedError
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator
from tests.oauth_tokens import Issuer, claims_of, unsecured
from tests.ports import free_port
from trust.jaas import OAUTH_MODULE

LISTENERS = {
    "UNSECURED": "SASL_PLAINTEXT",
    "SIGNED": "SASL_PLAINTEXT",
    "SIGNED_TLS": "SASL_SSL",
}
SHORT_S = 4
# The header of a token and the point behind it. A random id may hold the first letters.
TOKEN = re.compile(r"eyJ[\w-]+\.")

pytestmark = needs_openssl


@dataclass
class Tokens:
    """A broker, its issuer, and the tokens that each listener accepts."""

    broker: BrokerProcess
    authority: Authority
    ports: dict[str, int]
    issuer: Issuer | None
    """None without the libraries for signatures."""

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def make(self, listener: str, user: str = "alice", lifetime_s: float = 600) -> str:
        if listener == "UNSECURED":
            return unsecured(claims_of(user, lifetime_s))
        if self.issuer is None:
            pytest.skip("the libraries for signatures are missing")
        return self.issuer.sign(claims_of(user, lifetime_s, aud="kafka", iss="issuer"), "ec")

    def options(self, listener: str, token: Callable[[], str]) -> dict[str, Any]:
        """Return the options of our client."""
        options: dict[str, Any] = {
            "security_protocol": LISTENERS[listener],
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Provider(token),
        }
        if listener == "SIGNED_TLS":
            options["ssl_cafile"] = str(self.authority.own.certificate)
        return options


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """Provides tokens to our client and to aiokafka."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()


def overrides(authority: Authority, ports: dict[str, int], keys: Path | None) -> dict[str, str]:
    """Return the configuration of the broker."""
    names = [name for name in ports if keys is not None or not name.startswith("SIGNED")]
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {"PLAINTEXT": "PLAINTEXT", **LISTENERS}.items()
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsecured.oauthbearer.sasl.jaas.config": (
            f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="";'
        ),
    }
    if keys is not None:
        settings |= {
            URL_KEY: keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": "issuer",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.clock.skew.seconds": "1",
            f"listener.name.signed.oauthbearer.{HANDLER_KEY}": SIGNED_HANDLERS[0],
            f"listener.name.signed_tls.oauthbearer.{HANDLER_KEY}": SIGNED_HANDLERS[1],
            "listener.name.unsecured.sasl.oauthbearer.jwks.endpoint.url": "",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("broker", hosts="IP:127.0.0.1").store),
        }
    return settings


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokens]:
    directory = tmp_path_factory.mktemp("oauth")
    authority = Authority.make(directory)
    ports = {name: free_port() for name in ("PLAINTEXT", *LISTENERS)}
    keys: Path | None = directory / "keys.json"
    issuer: Issuer | None = None
    try:
        issuer = Issuer.make()
        (directory / "keys.json").write_bytes(issuer.key_set())
    except pytest.skip.Exception:
        keys = None
    broker = BrokerProcess(directory / "data", overrides(authority, ports, keys))
    try:
        broker.wait_for_event(READY_EVENT)
        with Wire(ports["PLAINTEXT"]) as wire:
            assert wire.create_topic("orders").error_code == 0
        yield Tokens(broker, authority, ports, issuer)
    finally:
        broker.kill()
    log = "".join(broker.output)
    assert not TOKEN.search(log), "a token is logged"
    assert "Traceback" not in log


@pytest.fixture(params=LISTENERS)
def listener(request: pytest.FixtureRequest, tokens: Tokens) -> str:
    """Each listener; without the libraries, listeners for signed tokens are skipped."""
    name = str(request.param)
    tokens.make(name)
    return name


async def test_our_client_logs_in(tokens: Tokens, listener: str) -> None:
    options = tokens.options(listener, lambda: tokens.make(listener))
    async with ottla.Producer(tokens.address(listener), **options) as producer:
        assert (await (await producer.send("orders", b"x"))).partition == 0


async def test_tokens_that_are_not_valid_are_refused(tokens: Tokens, listener: str) -> None:
    good = tokens.make(listener)
    bad = [
        tokens.make(listener, lifetime_s=-5),
        good[:-8] + "AAAAAAAA",
        "no-token",
        unsecured(claims_of("alice", aud="kafka", iss="issuer")) + ("x" * 8),
    ]
    if tokens.issuer is not None and listener != "UNSECURED":
        bad.append(unsecured(claims_of("alice", aud="kafka", iss="issuer")))
        bad.append(tokens.issuer.sign(claims_of("alice", aud="other", iss="issuer")))
        bad.append(tokens.issuer.sign(claims_of("alice", aud="kafka", iss="other")))
    for token in bad:
        options = tokens.options(listener, partial(str, token))
        with pytest.raises(AuthenticationFailedError) as caught:
            await ottla.Admin(tokens.address(listener), **options).start()
        assert token not in str(caught.value)
    event = tokens.broker.wait_for_event("connection.dropped")
    assert "OAUTHBEARER: " in str(event["reason"])


def log_in(wire: Wire, token: str) -> SaslAuthenticateResponse:
    """Send a token; return the first response."""
    handshake = SaslHandshakeRequest(mechanism="OAUTHBEARER")
    assert wire.ask(ApiKey.SASL_HANDSHAKE, 1, handshake, SaslHandshakeResponse).error_code == 0
    return authenticate(wire, f"n,,\x01auth=Bearer {token}\x01\x01".encode())


def authenticate(wire: Wire, data: bytes) -> SaslAuthenticateResponse:
    message = SaslAuthenticateRequest(auth_bytes=data)
    return wire.ask(ApiKey.SASL_AUTHENTICATE, 2, message, SaslAuthenticateResponse)


def test_a_refusal_has_the_form_of_the_standard(tokens: Tokens) -> None:
    with Wire(tokens.ports["UNSECURED"]) as wire:
        first = log_in(wire, "x.y.z")
        assert (first.error_code, bytes(first.auth_bytes)) == (0, b'{"status":"invalid_token"}')
        began_s = time.monotonic()
        second = authenticate(wire, b"\x01")
        # Guessing takes time, as with passwords.
        assert time.monotonic() - began_s > 0.09
        assert (second.error_code, second.error_message) == (58, '{"status":"invalid_token"}')
        with pytest.raises(ConnectionError):
            wire.receive(ApiKey.SASL_AUTHENTICATE, 2)


def test_a_session_ends_with_its_token(tokens: Tokens) -> None:
    with Wire(tokens.ports["UNSECURED"]) as wire:
        began_s = time.monotonic()
        response = log_in(wire, tokens.make("UNSECURED", lifetime_s=SHORT_S))
        assert 0 < response.session_lifetime_ms <= SHORT_S * 1000
        lifetime_s = response.session_lifetime_ms / 1000
        # The session has begun between these times, however long the machine took for the login.
        sent_s = logged_in_s = time.monotonic()
        while is_answered(wire):
            assert sent_s < logged_in_s + lifetime_s + 0.1, "a response after the session"
            time.sleep(0.05)
            sent_s = time.monotonic()
        assert time.monotonic() > began_s + lifetime_s - 0.1, "no response within the session"


def is_answered(wire: Wire) -> bool:
    """Send a request; return whether the broker responds instead of closing the connection."""
    try:
        wire.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        wire.receive(ApiKey.METADATA, 12)
    except ConnectionError:
        return False
    return True


def test_a_session_is_renewed_by_a_token_of_the_same_user(tokens: Tokens) -> None:
    for user, code in (("alice", 0), ("bob", 58)):
        with Wire(tokens.ports["UNSECURED"]) as wire:
            assert log_in(wire, tokens.make("UNSECURED")).session_lifetime_ms > 0
            for _ in range(12):
                time.sleep(0.1)
            assert log_in(wire, tokens.make("UNSECURED", user)).error_code == code


async def test_our_client_outlives_its_tokens(tokens: Tokens) -> None:
    options = tokens.options("UNSECURED", lambda: tokens.make("UNSECURED", lifetime_s=SHORT_S))
    address = tokens.address("UNSECURED")
    async with ottla.Producer(address, enable_idempotence=False, retries=0, **options) as producer:
        ends_s = time.monotonic() + 1.5 * SHORT_S
        offsets = []
        while time.monotonic() < ends_s:
            offsets.append((await (await producer.send("orders", b"x"))).offset)
            await asyncio.sleep(0.05)
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


async def test_aiokafka_logs_in(tokens: Tokens, listener: str) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=tokens.address(listener),
        security_protocol=LISTENERS[listener],
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(lambda: tokens.make(listener)),
        ssl_context=tokens.authority.context() if listener == "SIGNED_TLS" else None,
    )
    async with producer:
        assert (await producer.send_and_wait("orders", b"x")).partition == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_kafka_python_logs_in(tokens: Tokens, listener: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonProvider

    class Static(KafkaPythonProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.make(listener)

    def topics() -> list[str]:
        with closing(
            KafkaAdminClient(
                bootstrap_servers=tokens.address(listener),
                security_protocol=LISTENERS[listener],
                sasl_mechanism="OAUTHBEARER",
                sasl_oauth_token_provider=Static(),
                ssl_cafile=str(tokens.authority.own.certificate),
            )
        ) as admin:
            return list(admin.list_topics())

    assert "orders" in await asyncio.to_thread(topics)


def librdkafka(tokens: Tokens, listener: str, **more: Any) -> list[object]:
    """Send a record; return the errors of the delivery."""
    producer = Producer(
        {
            "bootstrap.servers": tokens.address(listener),
            "security.protocol": LISTENERS[listener],
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": str(tokens.authority.own.certificate),
            "message.timeout.ms": 60_000,
            "log_level": 0,
            **more,
        }
    )
    delivered: list[object] = []
    producer.poll(0)
    producer.produce("orders", b"x", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(60)
    return delivered


async def test_librdkafka_logs_in(tokens: Tokens, listener: str) -> None:
    token = tokens.make(listener)

    def provide(_config: str) -> tuple[str, float]:
        return token, time.time() + 600

    assert await asyncio.to_thread(librdkafka, tokens, listener, oauth_cb=provide) == [None]


async def test_librdkafkas_own_unsecured_tokens_are_accepted(tokens: Tokens) -> None:
    config = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }
    assert await asyncio.to_thread(librdkafka, tokens, "UNSECURED", **config) == [None]


@pytest.fixture
def token_endpoint(tokens: Tokens) -> Iterator[str]:
    """The address at which an OIDC client gets a token for its id and secret."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"access_token": tokens.make("SIGNED"), "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


async def test_librdkafka_logs_in_by_oidc(tokens: Tokens, token_endpoint: str) -> None:
    tokens.make("SIGNED")
    config = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.token.endpoint.url": token_endpoint,
    }
    assert await asyncio.to_thread(librdkafka, tokens, "SIGNED", **config) == [None]


@pytest.mark.parametrize("kind", ["unsecured", "signed"])
def test_brokers_log_in_to_each_other_by_tokens(tmp_path: Path, kind: str) -> None:
    prefix = "listener.name.inner.oauthbearer."
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }
    if kind == "signed":
        issuer = Issuer.make()
        (tmp_path / "keys.json").write_bytes(issuer.key_set())
        (tmp_path / "token").write_text(issuer.sign(claims_of("broker")))
        settings |= {
            prefix + HANDLER_KEY: SIGNED_HANDLERS[0],
            prefix + LOGIN_HANDLER_KEY: TOKEN_HANDLERS[0],
            URL_KEY: (tmp_path / "keys.json").as_uri(),
            TOKEN_URL_KEY: (tmp_path / "token").as_uri(),
        }
    else:
        # The brokers renew their logins while records flow.
        settings[f"{prefix}sasl.jaas.config"] = (
            f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="" '
            'unsecuredLoginStringClaim_sub="broker" unsecuredLoginLifetimeSeconds="3";'
        )
    coordinator = Coordinator(tmp_path / "coordinator")
    brokers: list[BrokerProcess] = []
    try:
        for broker_id in (1, 2):
            ports = (free_port(), free_port())
            listeners = f"PLAINTEXT://127.0.0.1:{ports[0]},INNER://127.0.0.1:{ports[1]}"
            own = {"broker.id": str(broker_id), "zookeeper.connect": coordinator.address}
            data = tmp_path / str(broker_id)
            brokers.append(BrokerProcess(data, {**settings, **own, "listeners": listeners}))
            brokers[-1].wait_for_event(READY_EVENT)
        asyncio.run(produce_to_both(f"127.0.0.1:{ports[0]}"))
    finally:
        for broker in brokers:
            broker.kill()
        coordinator.kill()
    log = "".join(line for broker in brokers for line in broker.output)
    assert "Traceback" not in log
    assert not TOKEN.search(log), "a token is logged"


async def produce_to_both(address: str) -> None:
    """Produce with acks=all for longer than a session of the brokers lasts."""
    async with ottla.Admin(address) as admin:
        both = ottla.NewTopic("both", 1, 2, configs={"min.insync.replicas": "2"})
        await admin.create_topics([both])
    async with ottla.Producer(address, acks="all") as producer:
        ends_s = time.monotonic() + 4
        while time.monotonic() < ends_s:
            await (await producer.send("both", b"x"))
            await asyncio.sleep(0.1)


def test_a_broker_without_a_choice_of_tokens_does_not_start(tmp_path: Path) -> None:
    port = free_port()
    broker = BrokerProcess(
        tmp_path,
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,OAUTH://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        },
    )
    try:
        assert broker.process.wait(timeout=60) == 2
    finally:
        broker.kill()
    assert "any client can make" in "".join(broker.output)
