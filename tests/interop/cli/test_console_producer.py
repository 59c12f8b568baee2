"""Kafka's console producer with its idempotent defaults, behind a proxy that loses responses."""

import asyncio
import subprocess
from collections.abc import Iterator

import pytest

from kafkawire.errors import ErrorCode
from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.once import read_values
from tests.interop.kafka_jars import JARS, needs_jars

TOPIC = "once"
LINES = 4_000
TIMEOUT_S = 120
SETTINGS = ("linger.ms=0", "batch.size=400", "retry.backoff.ms=5", "reconnect.backoff.ms=5")

pytestmark = needs_jars


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    made = LossyProxy(seed=3, loss_share=0.1)
    made.start()
    yield made
    made.stop()


def test_every_line_of_the_console_producer_is_written_once(
    proxy: LossyProxy, start_broker: StartBroker
) -> None:
    broker = start_broker(
        overrides={
            "listeners": "CLIENTS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{proxy.port},PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    proxy.target_port = broker.port
    with Wire(broker.port) as wire:
        assert wire.create_topic(TOPIC).error_code == ErrorCode.NONE
    address = f"127.0.0.1:{proxy.port}"
    lines = [f"{number}:" for number in range(LINES)]
    properties = [word for each in SETTINGS for word in ("--producer-property", each)]
    command = ["java", "-Xmx256m", "-cp", f"{JARS}/*", "kafka.tools.ConsoleProducer"]
    command += ["--bootstrap-server", address, "--topic", TOPIC, *properties]
    written = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert written.returncode == 0, written.stderr
    assert proxy.lost_count > 10, "hardly any response was lost, so this proves nothing"
    values = asyncio.run(read_values(address, TOPIC))[0]
    assert values == [b"%d" % number for number in range(LINES)]
