"""Ottla's client against a Kafka 3.9.1 broker with TLS and SASL."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla
from ottla.client.errors import (
    AuthenticationFailedError,
    ConnectionLostError,
    NoBrokerAvailableError,
)
from tests.certificates import needs_openssl, self_signed
from tests.interop.kafka_broker import kafka_jars_or_skip, kafka_on_coordinator
from tests.ports import free_port

SESSION_MS = 2_000
MODULES = "org.apache.kafka.common.security"

pytestmark = needs_openssl


class Secured(NamedTuple):
    """The listeners of the broker, and the certificate that clients trust."""

    plain: str
    sasl_ssl: str
    ssl: str
    certificate: Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("kafka")
    made = self_signed(directory)
    certificate, store = made.certificate, made.store
    ports = free_port(), free_port()
    prefix = "listener.name.sasl_ssl"
    settings = {
        "advertised.listeners": "",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required user_alice="s3cret";'
        ),
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{prefix}.oauthbearer.sasl.jaas.config": (
            f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        f"{prefix}.plain.connections.max.reauth.ms": str(SESSION_MS),
    }
    plain = free_port()
    listeners = (
        f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{ports[0]},SSL://127.0.0.1:{ports[1]}"
    )
    settings |= {"listeners": listeners, "advertised.listeners": listeners}
    with kafka_on_coordinator(directory, settings):
        add_user(jars, f"127.0.0.1:{plain}")
        yield Secured(
            f"127.0.0.1:{plain}", f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", certificate
        )


def add_user(jars: Path, bootstrap: str) -> None:
    """Give alice SCRAM credentials; Kafka's tool computes them."""
    credentials = (
        "SCRAM-SHA-256=[iterations=4096,password=s3cret],"
        "SCRAM-SHA-512=[iterations=16384,password=s3cret]"
    )
    tool = ["java", "-cp", f"{jars}/*", "kafka.admin.ConfigCommand", "--alter"]
    what = ["--entity-type", "users", "--entity-name", "alice", "--add-config", credentials]
    subprocess.run(
        [*tool, "--bootstrap-server", bootstrap, *what], check=True, capture_output=True, timeout=60
    )


def options(kafka: Secured, mechanism: str, password: str = "s3cret") -> dict[str, Any]:
    found: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka.certificate),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**found, "sasl_oauth_token_provider": Tokens(password)}
    return {**found, "sasl_plain_username": "alice", "sasl_plain_password": password}


class Tokens:
    """Provides tokens as Kafka's unsecured validator accepts them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def token(self) -> str:
        if self._kind == "invalid":
            return "no token"
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 600}
        parts = [json.dumps(each).encode() for each in ({"alg": "none"}, claims)]
        return ".".join(
            [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts] + [""]
        )


MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_records_go_through_an_authenticated_connection(
    kafka: Secured, mechanism: str
) -> None:
    secured = options(kafka, mechanism)
    topic = f"by-{mechanism.lower()}"
    async with ottla.Admin(kafka.sasl_ssl, **secured) as admin:
        await admin.create_topics([ottla.NewTopic(topic, 1, 1)])
    async with ottla.Producer(kafka.sasl_ssl, **secured) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number)
        await producer.flush()
    async with ottla.Consumer(kafka.sasl_ssl, auto_offset_reset="earliest", **secured) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 10:
                break
    assert values == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_wrong_credentials_are_refused_for_good(kafka: Secured, mechanism: str) -> None:
    wrong = options(kafka, mechanism, password="invalid")
    with pytest.raises(AuthenticationFailedError, match="credentials") as caught:
        await ottla.Admin(kafka.sasl_ssl, **wrong).start()
    assert "invalid." not in str(caught.value)


async def test_a_client_outlives_the_sessions_of_its_connections(kafka: Secured) -> None:
    secured = options(kafka, "PLAIN")
    async with ottla.Admin(kafka.sasl_ssl, **secured) as admin:
        await admin.create_topics([ottla.NewTopic("long", 1, 1)])
    deliveries = []
    async with ottla.Producer(kafka.sasl_ssl, enable_idempotence=False, retries=0, **secured) as it:
        end_s = time.monotonic() + 3 * SESSION_MS / 1000
        while time.monotonic() < end_s:
            deliveries.append(await it.send("long", b"x"))
            await asyncio.sleep(0.02)
        places = [(await each).offset for each in deliveries]
    assert places == list(range(len(places)))


async def test_a_certificate_of_another_authority_is_not_trusted(kafka: Secured) -> None:
    secured = {**options(kafka, "PLAIN")}
    del secured["ssl_cafile"]
    with pytest.raises(AuthenticationFailedError, match="not trusted: self-signed"):
        await ottla.Admin(kafka.sasl_ssl, **secured).start()


async def test_a_certificate_for_another_host_is_not_trusted(kafka: Secured) -> None:
    port = kafka.sasl_ssl.rpartition(":")[2]
    with pytest.raises(AuthenticationFailedError, match="not valid for 'localhost'"):
        await ottla.Admin(f"localhost:{port}", **options(kafka, "PLAIN")).start()


async def test_a_client_certificate_is_shown(kafka: Secured) -> None:
    store = kafka.certificate.with_suffix(".pem")
    secured: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": str(kafka.certificate)}
    async with ottla.Admin(kafka.ssl, **secured, ssl_certfile=str(store)) as admin:
        assert len((await admin.describe_cluster()).brokers) == 1
    with pytest.raises(AuthenticationFailedError, match="refuses the TLS handshake"):
        await ottla.Admin(kafka.ssl, **secured).start()


async def test_a_listener_that_speaks_something_else_is_named(kafka: Secured) -> None:
    with pytest.raises(NoBrokerAvailableError, match="Does it speak TLS"):
        await ottla.Admin(kafka.plain, security_protocol="SSL").start()
    with pytest.raises(ConnectionLostError):
        await ottla.Admin(kafka.sasl_ssl).start()


def test_commands_read_the_file_of_kafkas_tools(kafka: Secured, tmp_path: Path) -> None:
    """The same file serves Kafka's tool and every kind of command of ours."""
    file = tmp_path / "client.properties"
    file.write_text(
        f"""
        security.protocol=SASL_SSL
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config={MODULES}.scram.ScramLoginModule required username="alice" \\
            password="s3cret";
        ssl.truststore.type=PEM
        ssl.truststore.location={kafka.certificate}
        """
    )
    tool = ["java", "-cp", f"{kafka_jars_or_skip()}/*", "kafka.admin.ConfigCommand", "--describe"]
    where = ["--bootstrap-server", kafka.sasl_ssl, "--command-config", str(file)]
    users = subprocess.run(
        [*tool, *where, "--entity-type", "users"], check=True, capture_output=True, text=True
    )
    assert "alice" in users.stdout
    environment = {
        **os.environ,
        "OTTLA_BOOTSTRAP": kafka.sasl_ssl,
        "OTTLA_COMMAND_CONFIG": str(file),
    }

    def run(*arguments: str, given: str = "", expect: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *arguments],
            env=environment, input=given, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == expect, done.stderr
        return done.stdout if expect == 0 else done.stderr

    run("topics", "create", "shared")
    assert "shared" in run("topics", "list").split()
    run("produce", "shared", given="a\nb\n")
    assert run("consume", "shared", "--no-follow") == "a\nb\n"
    assert run("consume", "shared", "--no-follow", "--group", "g") == "a\nb\n"
    assert "g" in run("groups", "list")
    assert '"brokers"' in run("cluster", "describe", "--json")
    assert "retention.ms" in run("configs", "describe", "topic", "shared")
    run("users", "create", "bob", "--password-file", "-", given="s3cret of bob")
    users = json.loads(run("users", "list", "--json"))
    assert users[1] == {
        "user": "bob",
        "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}],
    }
    of_alice = file.read_text()
    file.write_text(of_alice.replace("alice", "bob").replace("s3cret", "s3cret of bob"))
    assert "shared" in run("topics", "list").split()
    run("users", "alter", "bob", "--password-file", "-", given="another")
    assert "credentials" in run("topics", "list", expect=1)
    file.write_text(of_alice)
    run("users", "delete", "bob")
    assert "bob" in run("users", "describe", "bob", expect=1)
    file.write_text(of_alice.replace("s3cret", "wrong-word"))
    failure = run("topics", "list", expect=1)
    assert "credentials" in failure
    assert "wrong-word" not in failure
