"""Kafka's tool for delegation tokens, and Kafka's brokers, beside ours."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkawire.errors import ErrorCode
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.test_delegation_tokens import (
    Served,
    create,
    described,
    expire,
    renew,
)
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

SECRET = "s3cret-of-the-tokens"
TIMEOUT_S = 120.0
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


class Pair(NamedTuple):
    """Our broker and Kafka's in one cluster."""

    directory: Path
    jars: Path
    ours: Served
    kafka: Served

    def run(self, served: Served, main: str, config: str, *arguments: str, given: str = "") -> str:
        """Run one of Kafka's programs as a user; return its output."""
        path = self.directory / "client.properties"
        path.write_text(f"security.protocol=SASL_PLAINTEXT\n{config}")
        option = "--producer.config" if "Producer" in main else "--command-config"
        done = subprocess.run(
            [
                "java", "-Xmx256m", "-cp", f"{self.jars}/*", main,
                "--bootstrap-server", f"127.0.0.1:{served.sasl}", option, str(path), *arguments,
            ],
            input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def user(name: str) -> str:
    """Return the configuration of a user's client."""
    jaas = f'{PLAIN_MODULE} required username="{name}" password="s3cret-pw";'
    return f"sasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"


def knows(served: Served, token_id: str) -> bool:
    """Whether a broker has heard of a token."""
    with served.log_in("root") as root:
        return token_id in str(described(root, all_owners=True))


def is_gone(served: Served, token_id: str) -> bool:
    """Whether a broker has no token any more."""
    return not knows(served, token_id)


def owner_of(token_id: str, hmac: str) -> str:
    """Return the configuration of a token's client."""
    return (
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{token_id}" password="{hmac}" '
        'tokenauth="true";\ndelivery.timeout.ms=6000\nrequest.timeout.ms=5000\nlinger.ms=0\n'
    )


def settings_of(
    broker_id: int, ports: Mapping[str, int], coordinator: Coordinator
) -> dict[str, str]:
    """Return the configuration of a broker, in the words of both."""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    prefix = "listener.name.sasl_plaintext"
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": coordinator.address,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required user_alice="s3cret-pw" user_bob="s3cret-pw" '
            'user_root="s3cret-pw";'
        ),
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
        "delegation.token.secret.key": SECRET,
        "delegation.token.expiry.check.interval.ms": "1000",
        "offsets.topic.replication.factor": "1",
    }


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("tokens")
    coordinator = Coordinator(directory / "coordinator")
    ports = [{name: free_port() for name in ("PLAINTEXT", "SASL_PLAINTEXT")} for _ in range(2)]
    started: list[KafkaBroker | BrokerProcess] = []
    try:
        ours = BrokerProcess(directory / "data", settings_of(1, ports[0], coordinator))
        started.append(ours)
        ours.wait_for_event(READY_EVENT)
        kafka = KafkaBroker(
            2, directory, coordinator.address, jars, settings_of(2, ports[1], coordinator)
        )
        started.append(kafka)
        wait_until(kafka.has_started, TIMEOUT_S)
        first, second = (Served(ours, each["PLAINTEXT"], each["SASL_PLAINTEXT"]) for each in ports)
        yield Pair(directory, jars, first, second)
    finally:
        for broker in reversed(started):
            broker.kill()
        coordinator.kill()
    log = "".join(ours.output)
    assert SECRET not in log
    assert "Traceback" not in log


def test_kafkas_tool_makes_describes_renews_and_expires_a_token(pair: Pair) -> None:
    made = pair.run(
        pair.ours, TOOL, user("alice"), "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:bob",
    )  # fmt: skip
    [(token_id, hmac)] = re.findall(r"^(\S{22})\s+(\S{86}==)\s", made, re.MULTILINE)
    seen = pair.run(pair.ours, TOOL, user("alice"), "--describe", "--owner-principal", "User:alice")
    assert token_id in seen
    assert "User:bob" in seen
    with Wire(pair.ours.plain) as wire:
        assert wire.create_topic("orders").error_code == 0
    for served in (pair.ours, pair.kafka):
        wait_until(partial(knows, served, token_id))
    allow = [
        "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders",
    ]  # fmt: skip
    pair.run(pair.ours, "kafka.admin.AclCommand", user("root"), *allow)
    for served in (pair.ours, pair.kafka):
        # At both brokers the token has the rights of alice.
        pair.run(
            served, "kafka.tools.ConsoleProducer", owner_of(token_id, hmac),
            "--topic", "orders", given="x\n",
        )  # fmt: skip
    pair.run(pair.ours, TOOL, user("bob"), "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    pair.run(
        pair.ours, TOOL, user("alice"), "--expire", "--expiry-time-period", "-1", "--hmac", hmac
    )
    for served in (pair.ours, pair.kafka):
        wait_until(partial(is_gone, served, token_id))


@pytest.mark.parametrize("maker", ["ours", "kafka"])
def test_a_token_of_one_broker_logs_in_at_the_other(pair: Pair, maker: str) -> None:
    makes, takes = (pair.ours, pair.kafka) if maker == "ours" else (pair.kafka, pair.ours)
    with makes.log_in("alice") as alice, takes.log_in("alice") as beside:
        token = create(alice, "bob")
        assert token.error_code == 0
        wait_until(lambda: token.token_id in str(described(beside, "alice")))
        [known] = [
            each for each in described(beside, "alice").tokens if each.token_id == token.token_id
        ]
        assert (known.hmac, known.expiry_timestamp) == (token.hmac, token.expiry_timestamp_ms)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            wire, response = takes.log_in_by_token(token, mechanism)
            with wire:
                assert response.error_code == 0
                assert response.session_lifetime_ms > 0
        later = renew(beside, token.hmac, 3 * 24 * 3_600_000)
        assert later.error_code == 0
        wait_until(lambda: str(later.expiry_timestamp_ms) in str(described(alice, "alice").tokens))
        assert expire(beside, token.hmac).error_code == 0
        wait_until(lambda: token.token_id not in str(described(alice, "alice")))


def answers(served: Served) -> list[object]:
    """Return the errors of requests that a broker must answer in the same way as Kafka."""
    found: list[object] = []
    with (
        served.log_in("alice") as alice,
        served.log_in("bob") as bob,
        served.log_in("root") as root,
        Wire(served.plain) as plain,
    ):
        for wire in (plain, alice, bob, root):
            found += [
                create(wire, owner="carol").error_code,
                renew(wire, b"unknown").error_code,
                renew(wire, b"unknown").expiry_timestamp_ms,
                expire(wire, b"unknown").error_code,
                described(wire).error_code,
                len(described(wire).tokens),
            ]
        token = create(alice, max_lifetime_ms=5_000)
        found.append(token.max_timestamp_ms - token.issue_timestamp_ms)
        found.append(token.expiry_timestamp_ms - token.issue_timestamp_ms)
        found += [renew(bob, token.hmac).error_code, expire(bob, token.hmac).error_code]
        found.append(renew(alice, token.hmac, 10**15).expiry_timestamp_ms == token.max_timestamp_ms)
        wire, response = served.log_in_by_token(token)
        with wire:
            found.append(response.error_code)
            found.append(0 < response.session_lifetime_ms <= 5_000)
            found += [create(wire).error_code, renew(wire, token.hmac).error_code]
            found += [expire(wire, token.hmac).error_code, described(wire).error_code]
        refused = create(bob, owner="alice")
        found += [
            refused.error_code,
            refused.principal_name,
            refused.token_requester_principal_name,
        ]
        found += [refused.issue_timestamp_ms, refused.token_id, bytes(refused.hmac)]
        found.append(expire(alice, token.hmac).error_code)
        found.append(expire(alice, token.hmac).error_code)
        token.hmac = bytes(64)
        wire, response = served.log_in_by_token(token)
        with wire:
            found += [response.error_code, response.error_message]
    return found


def test_kafka_answers_alike(pair: Pair) -> None:
    ours = answers(pair.ours)
    assert ours == answers(pair.kafka)
    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED in ours
    assert ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED in ours
