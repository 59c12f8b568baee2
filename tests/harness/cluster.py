"""A cluster of processes that a test can hurt. Edge: starts, kills, pauses and resumes them.

Brokers are numbered from 1 and keep their ports and directories over restarts. The coordinator is
ours, unless the test brings an address of its own.
"""

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.coordination.process import Coordinator
from tests.ports import free_port

SESSION_TIMEOUT_MS: Final = 2_000
READY_TIMEOUT_S: Final = 60.0

BROKER_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "30000",
    "default.replication.factor": "3",
    "auto.create.topics.enable": "false",
    # A follower that hangs leaves the in-sync set soon, else acks=all would wait for half a minute.
    "replica.lag.time.max.ms": "3000",
    # Clients that are not told otherwise look for a coordinator of groups, and so create its topic.
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    # Enough for a few attempts; a last broker that has nobody to hand over to must not wait long.
    "controlled.shutdown.retry.backoff.ms": "300",
}


class ClusterProcesses:
    """Brokers and their coordinator. Use with `with`: whatever runs in the end is stopped."""

    def __init__(
        self,
        directory: Path,
        *,
        broker_count: int = 3,
        overrides: Mapping[str, str] | None = None,
        connect: str | None = None,
    ) -> None:
        self.directory = directory
        self.coordinator = None if connect else Coordinator(directory / "coordinator")
        self._connect = connect
        self._overrides = {**BROKER_SETTINGS, **(overrides or {})}
        self.numbers = list(range(1, broker_count + 1))
        self.ports = {number: free_port() for number in self.numbers}
        self.brokers: dict[int, BrokerProcess] = {}
        self.paused: set[int] = set()

    def __enter__(self) -> Self:
        try:
            self.start_brokers(*self.numbers)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def connect(self) -> str:
        """The address of the coordinator, as `zookeeper.connect` has it."""
        if self._connect is not None:
            return self._connect
        assert self.coordinator is not None
        return self.coordinator.address

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def running(self) -> list[int]:
        """Brokers whose process runs, paused ones too."""
        return sorted(self.brokers)

    def log_directory(self, number: int) -> Path:
        """Where the broker keeps its partitions."""
        return self.directory / f"broker-{number}"

    def launch(self, number: int) -> BrokerProcess:
        """Start one broker without waiting for it."""
        broker = BrokerProcess(
            self.log_directory(number),
            {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]}",
                "zookeeper.connect": self.connect,
                **self._overrides,
            },
        )
        self.brokers[number] = broker
        return broker

    def start_brokers(self, *numbers: int) -> None:
        """Start brokers at the same time, and wait until each of them serves."""
        launched = [self.launch(number) for number in numbers]
        for broker in launched:
            broker.wait_for_event(READY_EVENT, READY_TIMEOUT_S)

    def add_broker(self) -> int:
        """Start one more broker and return its number."""
        number = max(self.numbers) + 1
        self.numbers.append(number)
        self.ports[number] = free_port()
        self.start_brokers(number)
        return number

    def kill(self, number: int) -> None:
        """`kill -9`."""
        broker = self.brokers.pop(number)
        broker.kill()
        self._keep_log(number, broker)
        self.paused.discard(number)

    def stop(self, number: int) -> int:
        """Stop in order; return the exit code."""
        broker = self.brokers.pop(number)
        exit_code = broker.stop()
        self._keep_log(number, broker)
        return exit_code

    def _keep_log(self, number: int, broker: BrokerProcess) -> None:
        """Leave what the broker wrote beside its data, for whoever looks into a failure."""
        with (self.directory / f"broker-{number}.jsonl").open("a") as file:
            file.writelines(broker.output)

    def pause(self, number: int) -> None:
        """Let the process stand still; what is sent to it waits in the sockets."""
        self.brokers[number].process.send_signal(signal.SIGSTOP)
        self.paused.add(number)

    def resume(self, number: int) -> None:
        self.brokers[number].process.send_signal(signal.SIGCONT)
        self.paused.discard(number)

    def wipe(self, number: int) -> None:
        """Lose the disk of a broker that does not run."""
        assert number not in self.brokers
        shutil.rmtree(self.log_directory(number))

    def restart_coordinator(self) -> None:
        """Kill our coordinator and start it again on its data."""
        assert self.coordinator is not None, "this coordinator is not ours to kill"
        self.coordinator.kill()
        self.coordinator.start()

    def end(self) -> None:
        """Kill what is left: how brokers stop is for tests that look at it."""
        for number in self.running:
            self.kill(number)
        if self.coordinator is not None:
            self.coordinator.kill()
