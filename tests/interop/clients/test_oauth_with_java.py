"""Kafka's Java clients with tokens of OAUTHBEARER at a broker of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.oauth_bearer import HANDLER_KEY, SIGNED_HANDLERS, URL_KEY
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.interop.kafka_broker import kafka_jars_or_skip
from tests.oauth_tokens import Issuer, claims_of
from tests.ports import free_port
from trust.jaas import OAUTH_MODULE

TIMEOUT_S = 120.0
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class Stage:
    """A broker with one listener for tokens, and the clients' files."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self.port = free_port()
        plain = free_port()
        self.broker = BrokerProcess(
            directory / "data",
            {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},OAUTH://127.0.0.1:{self.port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
                "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
                **settings,
            },
        )
        self.broker.wait_for_event(READY_EVENT)
        with Wire(plain) as wire:
            assert wire.create_topic("orders").error_code == 0

    def run(self, main: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's programs."""
        return subprocess.run(
            [
                "java", "-Xmx256m", "-cp", f"{kafka_jars_or_skip()}/*", main,
                "--bootstrap-server", f"127.0.0.1:{self.port}", *arguments,
            ],
            input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def client(self, text: str) -> str:
        """Write a client's configuration; return its path."""
        path = self.directory / "client.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"delivery.timeout.ms=6000\nrequest.timeout.ms=5000\nlinger.ms=0\n{text}"
        )
        return str(path)

    def check_round_trip(self, config: str) -> None:
        """Produce and consume records with Kafka's console clients."""
        produced = self.run(
            "kafka.tools.ConsoleProducer", "--topic", "orders", "--producer.config", config,
            given="first\nsecond\n",
        )  # fmt: skip
        assert produced.returncode == 0, produced.stderr
        found = self.run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "orders",
            "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000",
            "--consumer.config", config,
        )  # fmt: skip
        assert found.stdout.split() == ["first", "second"], found.stderr

    def refusal(self, config: str) -> str:
        """Return the output of a tool that cannot log in."""
        done = self.run("org.apache.kafka.tools.TopicCommand", "--list", "--command-config", config)
        assert done.returncode == 1
        return done.stdout + done.stderr


@pytest.fixture
def stages() -> Iterator[list[Stage]]:
    """The stages of a test, which it adds."""
    kafka_jars_or_skip()
    started: list[Stage] = []
    yield started
    for stage in started:
        stage.broker.kill()
        assert "Traceback" not in "".join(stage.broker.output)


def test_kafkas_unsecured_login_is_accepted(stages: list[Stage], tmp_path: Path) -> None:
    options = 'unsecuredValidatorRequiredScope="orders"'
    stages.append(
        Stage(
            tmp_path,
            {
                "listener.name.oauth.oauthbearer.sasl.jaas.config": (
                    f"{OAUTH_MODULE} required {options};"
                )
            },
        )
    )
    jaas = f'sasl.jaas.config={OAUTH_MODULE} required unsecuredLoginStringClaim_sub="alice"'
    scope = 'unsecuredLoginListClaim_scope=" orders logs"'
    # The first character of a list is its separator.
    stages[0].check_round_trip(stages[0].client(f"{jaas} {scope};\n"))
    refusal = stages[0].refusal(stages[0].client(f"{jaas};\n"))
    assert '{"status":"insufficient_scope", "scope":"[orders]"}' in refusal


def test_kafkas_login_by_a_signed_token_is_accepted(stages: list[Stage], tmp_path: Path) -> None:
    issuer = Issuer.make()
    (tmp_path / "keys.json").write_bytes(issuer.key_set())
    stages.append(
        Stage(
            tmp_path,
            {
                f"listener.name.oauth.oauthbearer.{HANDLER_KEY}": SIGNED_HANDLERS[0],
                URL_KEY: (tmp_path / "keys.json").as_uri(),
                "sasl.oauthbearer.expected.audience": "kafka",
            },
        )
    )
    token = tmp_path / "token"
    config = stages[0].client(
        f"sasl.jaas.config={OAUTH_MODULE} required;\n"
        f"sasl.login.callback.handler.class={LOGIN_HANDLER}\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    for key_id in ("rsa", "ec"):
        token.write_text(issuer.sign(claims_of("alice", aud="kafka", scope="x"), key_id))
        if key_id == "rsa":
            stages[0].check_round_trip(config)
    token.write_text(issuer.sign(claims_of("alice", aud="logs", scope="x")))
    assert '{"status":"invalid_token"}' in stages[0].refusal(config)
