"""A cluster of processes for tests of failures. Edge: starts, kills, pauses and resumes them.

Brokers have ids from 1 and keep their ports and directories over restarts. The coordinator is
Ottla's, unless the test passes the address of another one.
"""

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
    # A hanging follower leaves the in-sync set soon; by default acks=all waits for half a minute.
    "replica.lag.time.max.ms": "3000",
    # By default clients look for a group coordinator, which creates its topic.
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    # Enough for a few attempts; the last broker, which cannot hand over, must not wait long.
    "controlled.shutdown.retry.backoff.ms": "300",
}


class ClusterProcesses:
    """Brokers and their coordinator. Use with `with`: all processes are killed at the end."""

    def __init__(
        self,
        directory: Path,
        *,
        broker_count: int = 3,
        overrides: Mapping[str, str] | None = None,
        connect: str | None = None,
        has_racks: bool = False,
    ) -> None:
        """Start nothing yet. With `has_racks`, broker 1 is in rack-1, and so on."""
        self._has_racks = has_racks
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
        """Address of the coordinator, in the form of `zookeeper.connect`."""
        if self._connect is not None:
            return self._connect
        assert self.coordinator is not None
        return self.coordinator.address

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, running or not."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def running(self) -> list[int]:
        """Brokers whose process runs, including paused ones."""
        return sorted(self.brokers)

    def log_directory(self, number: int) -> Path:
        """Return the broker's log dir."""
        return self.directory / f"broker-{number}"

    def launch(self, number: int) -> BrokerProcess:
        """Start one broker without waiting for it."""
        broker = BrokerProcess(
            self.log_directory(number),
            {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]}",
                "zookeeper.connect": self.connect,
                **({"broker.rack": f"rack-{number}"} if self._has_racks else {}),
                **self._overrides,
            },
        )
        self.brokers[number] = broker
        return broker

    def start_brokers(self, *numbers: int) -> None:
        """Start brokers at the same time, and wait until each of them is ready."""
        launched = [self.launch(number) for number in numbers]
        for broker in launched:
            broker.wait_for_event(READY_EVENT, READY_TIMEOUT_S)

    def add_broker(self) -> int:
        """Start one more broker and return its id."""
        number = max(self.numbers) + 1
        self.numbers.append(number)
        self.ports[number] = free_port()
        self.start_brokers(number)
        return number

    def kill(self, number: int) -> None:
        """Kill a broker with `kill -9`."""
        broker = self.brokers.pop(number)
        broker.kill()
        self._keep_log(number, broker)
        self.paused.discard(number)

    def stop(self, number: int) -> int:
        """Stop a broker with a controlled shutdown; return the exit code."""
        broker = self.brokers.pop(number)
        exit_code = broker.stop()
        self._keep_log(number, broker)
        return exit_code

    def _keep_log(self, number: int, broker: BrokerProcess) -> None:
        """Keep the broker's output next to its data, to analyse a failure."""
        with (self.directory / f"broker-{number}.jsonl").open("a") as file:
            file.writelines(broker.output)

    def pause(self, number: int) -> None:
        """Pause the process; data that is sent to it waits in its sockets."""
        self.brokers[number].process.send_signal(signal.SIGSTOP)
        self.paused.add(number)

    def resume(self, number: int) -> None:
        self.brokers[number].process.send_signal(signal.SIGCONT)
        self.paused.discard(number)

    def restart_coordinator(self) -> None:
        """Kill Ottla's coordinator and start it again on its data."""
        assert self.coordinator is not None, "a foreign coordinator cannot be restarted"
        self.coordinator.kill()
        self.coordinator.start()

    def end(self) -> None:
        """Kill the remaining processes; other tests cover the shutdown of brokers."""
        for number in self.running:
            self.kill(number)
        if self.coordinator is not None:
            self.coordinator.kill()
