"""Kafka's Java client and the cipher suites that a listener of ours serves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.kafka_broker import kafka_jars_or_skip
from tests.interop.kafka_jars import java_command

SUITE = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
OPENSSL_SUITE = "ECDHE-ECDSA-CHACHA20-POLY1305"
SECOND_SUITE = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
TIMEOUT_S = 120

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[str]:
    kafka_jars_or_skip()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.own.certificate),
        "ssl.cipher.suites": f"{SUITE},{OPENSSL_SUITE}",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), settings)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker.bootstrap
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("suite", "is_served"),
    [
        pytest.param("", True, id="all"),
        pytest.param(SUITE, True, id="named as in Java"),
        pytest.param(SECOND_SUITE, True, id="named as in OpenSSL"),
        pytest.param("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", False, id="another"),
        pytest.param("TLS_AES_256_GCM_SHA384", False, id="of TLS 1.3"),
    ],
)
def test_a_client_meets_the_suites_of_the_listener(
    tmp_path: Path, authority: Authority, address: str, suite: str, is_served: bool
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.own.certificate}\n"
        "default.api.timeout.ms=8000\nrequest.timeout.ms=4000\n"
        + (f"ssl.cipher.suites={suite}\n" if suite else "")
    )
    program = java_command(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server", address, "--command-config", str(file), "--list",
    )  # fmt: skip
    done = subprocess.run(program, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode == 0) == is_served, done.stderr.decode()
