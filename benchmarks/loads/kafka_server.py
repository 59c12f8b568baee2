"""A Kafka broker in ZooKeeper mode as a reference, on a coordinator of ours (edge).

Its jars are in the folder that `OTTLA_KAFKA_JARS` names, or where `make interop` puts them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from benchmarks.coordination_servers import coordinator
from benchmarks.loads.process import CONNECT_RETRY_S, HOST, ServerProcess, free_port

CACHE: Final = Path.home() / ".cache" / "ottla" / "kafka-jars"
START_TIMEOUT_S: Final = 180.0
HEAP: Final = "-Xmx1g"
"""Kafka's start script has the same limit."""


def jars() -> Path | None:
    """Return the folder with Kafka's jars, None if they or java are missing."""
    folder = Path(os.environ.get("OTTLA_KAFKA_JARS") or CACHE)
    has_jars = any(folder.glob("kafka_2.13-*.jar"))
    return folder if has_jars and shutil.which("java") else None


@contextmanager
def kafka_process(
    directory: Path, folder: Path, *, overrides: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """Run one Kafka broker with the jars of `folder`, pinned as our broker is."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with coordinator(directory / "coordinator") as member:
        settings = (
            f"listeners=PLAINTEXT://{HOST}:{port}",
            f"log.dirs={directory / 'logs'}",
            f"zookeeper.connect={member.address}",
            "broker.id=1",
            "offsets.topic.replication.factor=1",
            *overrides,
        )
        properties = directory / "server.properties"
        properties.write_text("".join(f"{each}\n" for each in settings))
        arguments = [HEAP, "-cp", f"{folder}/*", "kafka.Kafka", str(properties)]
        with ServerProcess(
            arguments,
            port,
            log=directory / "broker.log",
            program="java",
            start_timeout_s=START_TIMEOUT_S,
        ) as broker:
            _wait_until_registered(broker)
            yield broker


def _wait_until_registered(broker: ServerProcess) -> None:
    """Wait until the broker is in its own metadata; topics cannot be created before."""
    client = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not client.list_topics(timeout=START_TIMEOUT_S).brokers:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"Kafka has not registered within {START_TIMEOUT_S} s")
        time.sleep(CONNECT_RETRY_S)
