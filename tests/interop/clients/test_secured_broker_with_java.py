"""Kafka's Java clients and tools at a secured broker of ours, and a Kafka broker beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.certificates import Authority, needs_openssl, stores_of_java
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

PASSWORD = "s3cret-of-alice"
TIMEOUT_S = 120.0
MECHANISM = "SCRAM-SHA-512"

pytestmark = needs_openssl


class Secured(NamedTuple):
    """Our broker and Kafka's in one cluster, whose brokers use SASL_SSL."""

    directory: Path
    jars: Path
    authority: Authority
    ports: Mapping[str, int]
    kafka: KafkaBroker

    def run(self, main: str, *arguments: str, text: str = "") -> str:
        """Run one of Kafka's programs; return its output."""
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", f"{self.jars}/*", main, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def properties(self, protocol: str, mechanism: str, password: str = PASSWORD) -> str:
        """Return the path of a client's configuration."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        path = self.directory / f"{protocol}-{mechanism}-{password}.properties"
        path.write_text(
            f"security.protocol={protocol}\n"
            f"sasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="alice" password="{password}";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.authority.own.certificate}\n"
            "delivery.timeout.ms=6000\nrequest.timeout.ms=5000\nlinger.ms=0\n"
        )
        return str(path)


def settings_of(
    authority: Authority, broker_id: int, ports: Mapping[str, int], coordinator: Coordinator
) -> dict[str, str]:
    """Return the configuration of a broker, in the words of both, with stores of Java."""
    certificate = authority.issue(f"broker-{broker_id}")
    key_store, trust_store = stores_of_java(certificate, authority, PASSWORD)
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = {
        "broker.id": str(broker_id),
        "zookeeper.connect": coordinator.address,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        # The default type is JKS.
        "ssl.keystore.location": str(key_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": PASSWORD,
        "offsets.topic.replication.factor": "1",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
        )
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = (
                f'{SCRAM_MODULE} required username="broker" password="{PASSWORD}";'
            )
    return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority.make(directory)
    coordinator = Coordinator(directory / "coordinator")
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
    ports = {name: free_port() for name in names}
    started: list[KafkaBroker | BrokerProcess] = []
    try:
        # The brokers' own user exists before the first broker.
        subprocess.run(
            ["java", "-cp", f"{jars}/*", "kafka.admin.ConfigCommand",
             "--zookeeper", coordinator.address, "--alter", "--entity-type", "users",
             "--entity-name", "broker", "--add-config", f"{MECHANISM}=[password={PASSWORD}]"],
            check=True, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        ours = BrokerProcess(directory / "data", settings_of(authority, 1, ports, coordinator))
        started.append(ours)
        ours.wait_for_event(READY_EVENT)
        others = {name: free_port() for name in names}
        kafka_settings = settings_of(authority, 2, others, coordinator)
        kafka = KafkaBroker(2, directory, coordinator.address, jars, kafka_settings)
        started.append(kafka)
        wait_until(kafka.has_started, TIMEOUT_S)
        yield Secured(directory, jars, authority, ports, kafka)
    finally:
        for broker in reversed(started):
            broker.kill()
        coordinator.kill()
    assert PASSWORD not in "".join(ours.output)
    assert "Traceback" not in "".join(ours.output)


def test_kafka_configs_adds_a_user_for_every_mechanism(secured: Secured) -> None:
    plain = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
    users = ["--entity-type", "users", "--entity-name", "alice"]
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", plain]
    credentials = (
        f"SCRAM-SHA-256=[iterations=4096,password={PASSWORD}],SCRAM-SHA-512=[password={PASSWORD}]"
    )
    secured.run(*tool, "--alter", *users, "--add-config", credentials)
    described = secured.run(*tool, "--describe", *users)
    assert "SCRAM-SHA-256=iterations=4096" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    with Wire(secured.ports["PLAINTEXT"]) as wire:
        assert wire.create_topic("orders").error_code == 0
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            address = f"127.0.0.1:{secured.ports[protocol]}"
            secured.run(
                "kafka.tools.ConsoleProducer", "--bootstrap-server", address, "--topic", "orders",
                "--producer.config", secured.properties(protocol, mechanism),
                text=f"{protocol} {mechanism}\n",
            )  # fmt: skip
    found = secured.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", f"127.0.0.1:{secured.ports['SASL_SSL']}", "--topic", "orders",
        "--from-beginning", "--max-messages", "6", "--timeout-ms", "60000",
        "--consumer.config", secured.properties("SASL_SSL", "SCRAM-SHA-512"),
    )  # fmt: skip
    assert len(set(found.split("\n")) - {""}) == 6


def test_the_java_client_names_a_wrong_password(secured: Secured) -> None:
    done = subprocess.run(
        ["java", "-cp", f"{secured.jars}/*", "org.apache.kafka.tools.TopicCommand", "--list",
         "--bootstrap-server", f"127.0.0.1:{secured.ports['SASL_SSL']}",
         "--command-config", secured.properties("SASL_SSL", "PLAIN", "wrong")],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Authentication failed: Invalid username or password" in done.stdout + done.stderr


def test_a_kafka_broker_and_ours_replicate_each_other(secured: Secured) -> None:
    """Each leads one partition, and follows the other, over SASL_SSL with SCRAM."""
    plain = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
    secured.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", plain, "--create",
        "--topic", "shared", "--replica-assignment", "1:2,2:1",
        "--config", "min.insync.replicas=2",
    )  # fmt: skip
    secured.run(
        "kafka.tools.ConsoleProducer", "--bootstrap-server", plain, "--topic", "shared",
        "--producer-property", "acks=all", "--producer-property", "batch.size=1",
        text="".join(f"{number}\n" for number in range(40)),
    )  # fmt: skip
    described = secured.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", plain, "--describe",
        "--topic", "shared",
    )  # fmt: skip
    assert described.count("Isr: 1,2") + described.count("Isr: 2,1") == 2
