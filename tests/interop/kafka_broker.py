"""A Kafka broker in ZooKeeper mode, as a process. Edge."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.coordination.process import Coordinator, ServerProcess, wait_until
from tests.interop.kafka_jars import kafka_jars
from tests.ports import free_port

START_TIMEOUT_S = 120.0
LOG4J = """
log4j.rootLogger=INFO, A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %m (%c)%n
log4j.logger.kafka.request.logger=WARN
"""


def kafka_jars_or_skip() -> Path:
    """Return the folder of the jars; skip the test if they or java are missing."""
    jars = kafka_jars()
    if jars is None or shutil.which("java") is None:
        pytest.skip("needs java, and Kafka's jars (OTTLA_KAFKA_JARS or mvn)")
    return jars


class KafkaBroker(ServerProcess):
    """A broker that connects to `connect`; it is still starting when the constructor returns."""

    def __init__(
        self,
        number: int,
        directory: Path,
        connect: str,
        jars: Path,
        settings: Mapping[str, str] | None = None,
        *,
        login_config: Path | None = None,
    ) -> None:
        super().__init__(free_port())
        self.number = number
        self.log = directory / f"broker-{number}.log"
        self.log_directory = directory / f"logs-{number}"
        properties = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": "6000",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            **(settings or {}),
        }
        self._properties = directory / f"broker-{number}.properties"
        self._properties.write_text(
            "".join(f"{key}={value}\n" for key, value in properties.items())
        )
        self._log4j = directory / "log4j.properties"
        self._log4j.write_text(LOG4J)
        self._jars = jars
        name = "java.security.auth.login.config"
        self._options = [] if login_config is None else [f"-D{name}={login_config}"]
        self.start()

    def start(self) -> None:
        """Start the process."""
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    "java",
                    "-Xmx512m",
                    "-cp",
                    f"{self._jars}/*",
                    f"-Dlog4j.configuration=file:{self._log4j}",
                    *self._options,
                    "kafka.Kafka",
                    str(self._properties),
                ],
                stdout=log,
                stderr=log,
                text=True,
            )

    def has_started(self) -> bool:
        log = self.log.read_text()
        # Before it knows the controller, it refuses to create topics.
        return "started (kafka.server.KafkaServer)" in log and "new ZK controller" in log


@contextmanager
def kafka_on_coordinator(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[KafkaBroker, Coordinator]]:
    """Run one Kafka broker on Ottla's coordinator; skip the test if Kafka is missing."""
    jars = kafka_jars_or_skip()
    coordinator = Coordinator(directory / "coordinator")
    try:
        broker = KafkaBroker(1, directory, coordinator.address, jars, settings)
        try:
            wait_until(broker.has_started, START_TIMEOUT_S)
            yield broker, coordinator
        finally:
            broker.kill()
    finally:
        coordinator.kill()
