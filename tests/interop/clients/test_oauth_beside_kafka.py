"""Tokens of OAUTHBEARER at a broker of ours and at Kafka's: the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.config.oauth_bearer import HANDLER_KEY, SIGNED_HANDLERS, URL_KEY
from kafkawire.apis import ApiKey
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.oauth_tokens import Issuer, claims_of, encode_json, unsecured
from tests.ports import free_port
from trust.jaas import OAUTH_MODULE

TIMEOUT_S = 120.0
NAMES = ("PLAINTEXT", "SIGNED", "UNSECURED")


class Pair(NamedTuple):
    """Our broker and Kafka's in one cluster."""

    ours: Mapping[str, int]
    kafka: Mapping[str, int]
    issuer: Issuer
    stranger: Issuer


def settings_of(
    broker_id: int, ports: Mapping[str, int], coordinator: Coordinator, keys: Path
) -> dict[str, str]:
    """Return the configuration of a broker, in the words of both."""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    signed, unsigned = (f"listener.name.{each}.oauthbearer." for each in ("signed", "unsecured"))
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": coordinator.address,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SIGNED:SASL_PLAINTEXT,UNSECURED:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{signed}sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{signed}{HANDLER_KEY}": SIGNED_HANDLERS[0],
        f"{signed}{URL_KEY}": keys.as_uri(),
        f"{signed}sasl.oauthbearer.expected.issuer": "issuer",
        f"{signed}sasl.oauthbearer.expected.audience": "kafka,logs",
        f"{unsigned}sasl.jaas.config": (
            f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="a b" '
            'unsecuredValidatorAllowableClockSkewMs="3000" '
            # Kafka's broker makes a token for itself as well.
            'unsecuredLoginStringClaim_sub="broker";'
        ),
    }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    jars = kafka_jars_or_skip()
    issuer, stranger = Issuer.make(), Issuer.make()
    directory = tmp_path_factory.mktemp("tokens")
    keys = directory / "keys.json"
    keys.write_bytes(issuer.key_set())
    coordinator = Coordinator(directory / "coordinator")
    ports = [{name: free_port() for name in NAMES} for _ in range(2)]
    started: list[KafkaBroker | BrokerProcess] = []
    try:
        ours = BrokerProcess(directory / "data", settings_of(1, ports[0], coordinator, keys))
        started.append(ours)
        ours.wait_for_event(READY_EVENT)
        settings = settings_of(2, ports[1], coordinator, keys)
        kafka = KafkaBroker(2, directory, coordinator.address, jars, settings)
        started.append(kafka)
        wait_until(kafka.has_started, TIMEOUT_S)
        yield Pair(ports[0], ports[1], issuer, stranger)
    finally:
        for broker in reversed(started):
            broker.kill()
        coordinator.kill()
    assert "Traceback" not in "".join(ours.output)


def log_in(port: int, first: bytes) -> list[object]:
    """Send a first message; return all that a client sees."""
    seen: list[object] = []
    with Wire(port) as wire:
        handshake = SaslHandshakeRequest(mechanism="OAUTHBEARER")
        chosen = wire.ask(ApiKey.SASL_HANDSHAKE, 1, handshake, SaslHandshakeResponse)
        assert chosen.error_code == 0
        for token in (first, b"\x01"):
            message = SaslAuthenticateRequest(auth_bytes=token)
            answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, message, SaslAuthenticateResponse)
            seen.append((answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
            # Up to the second: the brokers are asked one after the other.
            seen.append(round(answer.session_lifetime_ms / 10_000))
            if answer.error_code or not answer.auth_bytes:
                break
        # A session of an expired token lasts for 1 ms here, and for 0 ms in Kafka.
        time.sleep(0.05)
        try:
            wire.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            wire.receive(ApiKey.METADATA, 12)
            seen.append("serves")
        except ConnectionError:
            seen.append("closed")
    return seen


def first_message(token: str, acts_for: str = "", more: str = "") -> bytes:
    return f"n,{acts_for},\x01auth=Bearer {token}\x01{more}\x01".encode()


RIGHT: dict[str, Any] = {"aud": "kafka", "iss": "issuer"}


def now_s() -> float:
    return time.time()


SIGNED_TOKENS: dict[str, Callable[[Pair], str]] = {
    "rsa": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT)),
    "ec": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT), "ec"),
    "ps256": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT), alg="PS256"),
    "no key id": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT), "ec", kid=None),
    "unknown key id": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT), kid="other"),
    "list of audiences": lambda pair: pair.issuer.sign(
        claims_of("alice", aud=["x", "logs"], iss="issuer")
    ),
    "scope": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT, scope=["a", "b"])),
    "other issuer": lambda pair: pair.issuer.sign(claims_of("alice", aud="kafka", iss="x")),
    "no issuer": lambda pair: pair.issuer.sign(claims_of("alice", aud="kafka")),
    "other audience": lambda pair: pair.issuer.sign(claims_of("alice", aud="x", iss="issuer")),
    "no audience": lambda pair: pair.issuer.sign(claims_of("alice", iss="issuer")),
    "other keys": lambda pair: pair.stranger.sign(claims_of("alice", **RIGHT)),
    "expired": lambda pair: pair.issuer.sign(claims_of("alice", -60, **RIGHT)),
    "expired within the tolerance": lambda pair: pair.issuer.sign(
        {"sub": "alice", "iat": now_s() - 60, "exp": now_s() - 5, **RIGHT}
    ),
    "not valid yet": lambda pair: pair.issuer.sign(claims_of("alice", **RIGHT, nbf=now_s() + 100)),
    "no expiry": lambda pair: pair.issuer.sign({"sub": "alice", "iat": now_s(), **RIGHT}),
    "no issue": lambda pair: pair.issuer.sign({"sub": "alice", "exp": now_s() + 100, **RIGHT}),
    "no user": lambda pair: pair.issuer.sign({**claims_of("", **RIGHT)}),
    "number as user": lambda pair: pair.issuer.sign({**claims_of("a", **RIGHT), "sub": 7}),
    "unsecured": lambda _pair: unsecured(claims_of("alice", **RIGHT)),
    "garbage": lambda _pair: "a.b.c",
    "two parts": lambda _pair: f"{encode_json({'alg': 'RS256'})}.{encode_json({})}",
}
UNSECURED_TOKENS: dict[str, Callable[[Pair], str]] = {
    "scopes": lambda _pair: unsecured(claims_of("alice", scope=["a", "b", "c"])),
    "a scope is missing": lambda _pair: unsecured(claims_of("alice", scope=["a"])),
    "scopes in a text": lambda _pair: unsecured(claims_of("alice", scope="a b")),
    "no scopes": lambda _pair: unsecured(claims_of("alice")),
    "expired": lambda _pair: unsecured(claims_of("alice", -5, scope=["a", "b"])),
    "no user": lambda _pair: unsecured(claims_of("", scope=["a", "b"])),
    "an audience": lambda _pair: unsecured(claims_of("alice", scope=["a", "b"], aud="x")),
    "no issue": lambda _pair: unsecured(
        {"sub": "alice", "exp": int(now_s()) + 100, "scope": ["a", "b"]}
    ),
    "issued in the future": lambda _pair: unsecured(
        {"sub": "alice", "iat": now_s() + 50, "exp": now_s() + 100, "scope": ["a", "b"]}
    ),
    "signed": lambda pair: pair.issuer.sign(claims_of("alice", scope=["a", "b"])),
}


@pytest.mark.parametrize("name", SIGNED_TOKENS)
def test_signed_tokens_get_kafkas_answers(pair: Pair, name: str) -> None:
    first = first_message(SIGNED_TOKENS[name](pair))
    assert log_in(pair.ours["SIGNED"], first) == log_in(pair.kafka["SIGNED"], first)


@pytest.mark.parametrize("name", UNSECURED_TOKENS)
def test_unsecured_tokens_get_kafkas_answers(pair: Pair, name: str) -> None:
    first = first_message(UNSECURED_TOKENS[name](pair))
    assert log_in(pair.ours["UNSECURED"], first) == log_in(pair.kafka["UNSECURED"], first)


@pytest.mark.parametrize(
    ("acts_for", "more"), [("a=alice", ""), ("", "key=value\x01"), ("", "k=a b\x01host=h\x01")]
)
def test_first_messages_get_kafkas_answers(pair: Pair, acts_for: str, more: str) -> None:
    token = UNSECURED_TOKENS["scopes"](pair)
    first = first_message(token, acts_for, more)
    ours = log_in(pair.ours["UNSECURED"], first)
    assert ours == log_in(pair.kafka["UNSECURED"], first)
    assert ours[-1] == "serves"


@pytest.mark.parametrize(
    "first",
    [b"", b"\x01", b"n,,\x01\x01", b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=x\x01\x01"],
)
def test_malformed_messages_get_kafkas_answers(pair: Pair, first: bytes) -> None:
    assert log_in(pair.ours["SIGNED"], first) == log_in(pair.kafka["SIGNED"], first)
