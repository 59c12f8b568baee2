"""Our broker and Kafka's with the same secured configuration (edge).

The properties are the same text for both: keys, certificates and login modules are Kafka's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.loads.broker import create_topic
from benchmarks.loads.pipeline import connect
from benchmarks.loads.process import HOST, ServerProcess, free_port
from ottla import Admin
from ottla.client.admin_model import ScramUpsertion

USER: Final = "alice"
PASSWORD: Final = "s3cret-of-the-benchmark"
MECHANISM: Final = "SCRAM-SHA-512"
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
START_TIMEOUT_S: Final = 240.0
RETRY_S: Final = 0.2
HEAP: Final = "-Xmx1g"
JARS: Final = Path(
    os.environ.get("OTTLA_KAFKA_JARS") or Path.home() / ".cache" / "ottla" / "kafka-jars"
)
"""Kafka's jars, which `make interop` fetches."""


class Secured(NamedTuple):
    """A broker, its ports by listener, and the certificate that clients trust."""

    process: ServerProcess
    ports: Mapping[str, int]
    certificate: Path

    def connection(self, listener: str) -> Callable[[], socket.socket]:
        """Return a function that opens a connection, with TLS on the listener `SSL`."""
        port = self.ports[listener]
        if listener != "SSL":
            return lambda: connect(HOST, port)
        context = ssl.create_default_context(cafile=str(self.certificate))
        return lambda: context.wrap_socket(connect(HOST, port), server_hostname=HOST)


def has_kafka() -> bool:
    """Whether the reference can run."""
    return shutil.which("java") is not None and any(JARS.glob("kafka_2.13-*.jar"))


def secured_broker(directory: Path, *, coordinator: str = "") -> Secured:
    """Return a broker that is not started: Kafka's if it has a `coordinator`, else ours."""
    directory.mkdir()
    certificate, store = _certificate(directory)
    ports = {name: free_port() for name in LISTENERS}
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    properties = {
        "broker.id": "1",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(directory / "logs"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "sasl.enabled.mechanisms": MECHANISM,
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{MODULE} required;",
        "offsets.topic.replication.factor": "1",
        "socket.listen.backlog.size": "1000",
        **({"zookeeper.connect": coordinator} if coordinator else {}),
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    log = directory / "broker.log"
    if coordinator:
        arguments = [HEAP, "-cp", f"{JARS}/*", "kafka.Kafka", str(path)]
        program = "java"
    else:
        arguments, program = ["-m", "broker", str(path)], sys.executable
    process = ServerProcess(
        arguments,
        ports["PLAINTEXT"],
        log=log,
        program=program,
        start_timeout_s=START_TIMEOUT_S,
    )
    return Secured(process, ports, certificate)


def prepare(broker: Secured, topic: str) -> None:
    """Create a topic with one partition, and the user; a broker that starts refuses for a while."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            create_topic(broker.process.port, topic, 1)
            break
        except RuntimeError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(RETRY_S)
    asyncio.run(_add_user(broker.process.address))


async def _add_user(address: str) -> None:
    async with Admin(address) as admin:
        await admin.alter_user_scram_credentials(
            [ScramUpsertion(user=USER, mechanism=MECHANISM, password=PASSWORD, iterations=4096)]
        )


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Return a certificate for `HOST`, and a store with it and its key."""
    key, certificate, store = (directory / name for name in ("key", "crt", "store.pem"))
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=IP:{HOST}",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    store.write_text(key.read_text() + certificate.read_text())
    return certificate, store
