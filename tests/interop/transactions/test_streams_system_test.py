"""Kafka's own system test of exactly-once streams, on three brokers that are killed one by one.

`StreamsEosTest` of Kafka's test jar has a driver that writes records, processors that copy and
aggregate them, and a verifier that computes the results again. Kafka's ducktape test
`streams_eos_test.py` starts, stops and kills the processors in the same way, but no broker.
"""

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import ClusterProcesses
from tests.interop.kafka_jars import STREAMS_TESTS, run_java, streams_tests_or_skip
from tests.interop.transactions.test_programs_of_kafka import (
    OVERRIDES,
    PATIENCE_S,
    Program,
    create,
    wait_for,
)

PROGRAM = "org.apache.kafka.streams.tests.StreamsEosTest"
TOPICS = ("data", "echo", "min", "sum")
REPARTITIONED = ("repartition", "max", "cnt")
PARTITIONS = 5
PROGRESS = re.compile(rb"processed \d+ records from topic")
"""Each processor writes the line after 100 records of a partition."""
PROPERTIES = {
    "processing.guarantee": "exactly_once_v2",
    # A processor gets its partitions before it has restored their state.
    "acceptable.recovery.lag": str(2**63 - 1),
    # A killed processor stays a member of its group for so long.
    "session.timeout.ms": "10000",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    streams_tests_or_skip()
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as processes:
        yield processes


class StreamsProgram(Program):
    """A command of the system test, with a state directory of its own over its restarts."""

    def __init__(self, cluster: ClusterProcesses, directory: Path, name: str, command: str) -> None:
        properties = {
            "bootstrap.servers": cluster.bootstrap,
            "state.dir": str(directory / f"{name}-state"),
            **PROPERTIES,
        }
        path = directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self.log = directory / f"{name}.log"
        super().__init__(self.log, PROGRAM, str(path), command, more=[STREAMS_TESTS])

    def progress(self) -> int:
        """Return how many lines of progress there are."""
        return len(PROGRESS.findall(self.log.read_bytes()))

    def stop(self) -> None:
        """Let the program commit and leave its group."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)


class Processors:
    """The running processors of the application."""

    def __init__(self, cluster: ClusterProcesses, directory: Path, command: str) -> None:
        self._cluster, self._directory, self._command = cluster, directory, command
        self.running: dict[int, StreamsProgram] = {}

    def start(self, number: int) -> None:
        name = f"processor-{number}"
        self.running[number] = StreamsProgram(self._cluster, self._directory, name, self._command)

    def kill(self, number: int) -> None:
        self.running.pop(number).kill()

    def stop(self, number: int) -> None:
        self.running.pop(number).stop()

    def wait_for_progress(self) -> None:
        """Wait until each running processor has read more records than now."""
        before = {number: each.progress() for number, each in self.running.items()}
        for number, each in self.running.items():
            wait_for(lambda: each.progress() > before[number], each.tail)  # noqa: B023


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["", "-complex"], ids=["simple", "complex"])
def test_each_record_is_processed_once(
    cluster: ClusterProcesses, tmp_path: Path, kind: str
) -> None:
    create(cluster, *TOPICS, *(REPARTITIONED if kind else ()), partitions=PARTITIONS)
    driver = StreamsProgram(cluster, tmp_path, "driver", "run")
    processors = Processors(cluster, tmp_path, f"process{kind}")
    brokers = random.sample(cluster.numbers, len(cluster.numbers))
    try:
        for number in (1, 2, 3):
            processors.start(number)
            processors.wait_for_progress()
        for number, broker in zip((1, 2, 3), brokers, strict=True):
            processors.kill(number)
            processors.wait_for_progress()
            # While the others take over the partitions of the killed processor.
            cluster.kill(broker)
            processors.start(number)
            cluster.start_brokers(broker)
            processors.wait_for_progress()
        for number in (1, 2, 3):
            processors.stop(number)
            processors.wait_for_progress()
        driver.stop()
    finally:
        driver.kill()
        for processor in processors.running.values():
            processor.kill()
    # The driver compares the offsets of its own records.
    assert "Producer closed: " in driver.log.read_text(), driver.tail()
    assert "as expected but" not in driver.log.read_text(), driver.tail()
    path = str(tmp_path / "driver.properties")
    verified = run_java(PROGRAM, path, f"verify{kind}", more=[STREAMS_TESTS], timeout_s=PATIENCE_S)
    assert "ALL-RECORDS-DELIVERED" in verified, verified[-4000:]
