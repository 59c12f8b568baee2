"""Kafka's console tools at `ottla up --secure`, with the files that it writes."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli.up.conftest import Up
from tests.interop.kafka_broker import kafka_jars_or_skip

TIMEOUT_S = 240

pytest.importorskip("cryptography")


def test_console_tools_use_the_files_of_a_secured_cluster(tmp_path: Path) -> None:
    jars = kafka_jars_or_skip()
    up = Up(tmp_path, "--secure", "--brokers", "1")

    def run(program: str, *arguments: str, text: str = "", expect: int = 0) -> str:
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", f"{jars}/*", program, "--bootstrap-server", bootstrap,
             *arguments],
            input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout

    try:
        connections = up.wait_for("secured")
        bootstrap = ",".join(up.wait_for("ready")["brokers"])
        client, admin = connections["client"], connections["admin"]
        topics = "org.apache.kafka.tools.TopicCommand"
        run(topics, "--command-config", client, "--create", "--topic", "orders")
        run(
            "kafka.tools.ConsoleProducer",
            *("--producer.config", client, "--topic", "orders"),
            text="a\nb\n",
        )
        consumed = run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--consumer.config", client, "--topic", "orders", "--from-beginning"),
            *("--max-messages", "2", "--group", "billing"),
        )
        assert consumed.split() == ["a", "b"]
        described = run(topics, "--command-config", client, "--describe", "--topic", "orders")
        assert "PartitionCount: 1" in described
        run(topics, "--command-config", client, "--delete", "--topic", "orders", expect=1)
        run(topics, "--command-config", admin, "--delete", "--topic", "orders")
    finally:
        assert up.end(signal.SIGTERM) == 0
