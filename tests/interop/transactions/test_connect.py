"""Kafka Connect's exactly-once source on three brokers, while worker and brokers are killed.

The worker writes the lines of a file and its position in one transaction, and fences the producers
of the worker before it, so that each line is in the topic exactly once and in order.
"""

import asyncio
import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from tests.harness.cluster import ClusterProcesses
from tests.interop.clients.committed_records import committed_values
from tests.interop.kafka_jars import connect_or_skip, java_command
from tests.ports import free_port

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
TOPIC, CONNECTOR = "lines", "reader"
WRITE_INTERVAL_S = 0.05
LINES_PER_INTERVAL = 3
LINES_BETWEEN_FAULTS = 200
PATIENCE_S = 300.0
POLL_INTERVAL_S = 1.0
REQUEST_S = 10.0
_PAUSE = threading.Event()
OVERRIDES = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}
LOGGING = """
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""
SETTINGS = {
    "group.id": "workers",
    "exactly.once.source.support": "enabled",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "1000",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    # The tasks of a killed worker start again at once.
    "scheduled.rebalance.max.delay.ms": "0",
    **{f"{name}.storage.topic": f"connect-{name}" for name in ("config", "offset", "status")},
    **{f"{name}.storage.replication.factor": "3" for name in ("config", "offset", "status")},
    "offset.storage.partitions": "3",
    "status.storage.partitions": "1",
}
CONNECTOR_SETTINGS = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "topic": TOPIC,
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
}


class Worker:
    """A Connect worker that is killed and started again; its output goes to a file."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        self._output = directory / "worker.log"
        settings = {
            **SETTINGS,
            "bootstrap.servers": bootstrap,
            "listeners": self._url,
        }
        file = directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = directory / "log4j.properties"
        logging.write_text(LOGGING)
        java, *others = java_command(WORKER, str(file))
        self._command = [java, f"-Dlog4j.configuration=file:{logging}", *others]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        """End the worker with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill the worker and start it again."""
        self.kill()
        self._process = self._start()

    def configure(self, connector: dict[str, str]) -> bool:
        """Create or change the connector; return whether the worker has accepted it."""
        request = urllib.request.Request(
            f"{self._url}/connectors/{CONNECTOR}/config",
            data=json.dumps(connector).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S):
                return True
        except (urllib.error.URLError, OSError):
            # It has not started, or its group rebalances.
            return False

    def tail(self) -> str:
        """Return the end of the output, for the message of a failure."""
        return self._output.read_text()[-4000:]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    connect_or_skip()
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as processes:
        yield processes


def wait_for(condition: Callable[[], bool], worker: Worker) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S} s: {worker.tail()}"
        _PAUSE.wait(POLL_INTERVAL_S)


class Writer(threading.Thread):
    """Appends numbered lines to a file, a few in an interval."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self._path = path
        self._is_ended = threading.Event()

    def run(self) -> None:
        """Write until `end`."""
        with self._path.open("a") as file:
            while not self._is_ended.wait(WRITE_INTERVAL_S):
                more = [f"line {len(self.lines) + number}" for number in range(LINES_PER_INTERVAL)]
                file.writelines(f"{line}\n" for line in more)
                file.flush()
                self.lines += more

    def end(self) -> None:
        """Write no more lines."""
        self._is_ended.set()
        self.join()


def test_each_line_is_written_once(cluster: ClusterProcesses, tmp_path: Path) -> None:
    def kill_broker(number: int) -> None:
        cluster.kill(number)
        cluster.start_brokers(number)

    def written() -> list[str]:
        return committed_values(cluster.bootstrap, TOPIC, 1)[0]

    asyncio.run(create(cluster.bootstrap))
    source = tmp_path / "source.txt"
    source.touch()
    writer, worker = Writer(source), Worker(cluster.bootstrap, tmp_path)
    faults: list[Callable[[], None]] = [
        worker.restart,
        lambda: kill_broker(1),
        worker.restart,
        lambda: kill_broker(2),
        lambda: kill_broker(3),
        worker.restart,
    ]
    try:
        wait_for(lambda: worker.configure({**CONNECTOR_SETTINGS, "file": str(source)}), worker)
        writer.start()
        for fault in faults:
            wanted = len(written()) + LINES_BETWEEN_FAULTS
            wait_for(lambda: len(written()) >= wanted, worker)  # noqa: B023
            fault()
        writer.end()
        wait_for(lambda: len(written()) >= len(writer.lines), worker)
        assert written() == writer.lines
    finally:
        worker.kill()


async def create(bootstrap: str) -> None:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, 1, 3)])
