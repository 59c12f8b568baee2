"""`ottla up` as the cluster under measurement, and its nodes in the coordinator (edge)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.loads.process import end
from broker.cluster.coordinator_security import coordinator_security
from broker.config.coordinator_keys import CoordinatorKeys
from coordination.client import Client, Login
from coordination.errors import NoNodeError
from kafkawire.ids import TopicPartition
from ottla.cli.up.coordinator_login import FILE

STOP_TIMEOUT_S: Final = 60.0
LOOK_INTERVAL_S: Final = 0.1
SETTLE_TIMEOUT_S: Final = 120.0
SESSION_TIMEOUT_MS: Final = 20_000


class RunningCluster:
    """Brokers 1 to `broker_count` and their coordinator; `with` starts and stops them."""

    def __init__(
        self, directory: Path, *, broker_count: int = 3, overrides: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self.numbers = range(1, broker_count + 1)
        self.addresses: list[str] = []
        self.connect = ""
        self.ready_s = 0.0
        self._overrides = overrides
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        arguments = ["up", "--json", "--no-console", "--port", "0", "--dir", str(self.directory)]
        arguments += ["--brokers", str(len(self.numbers))]
        for override in self._overrides:
            arguments += ["--override", override]
        began_s = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            # Keep bytecode files, as an installed package has them.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            # The generator is pinned to one core; the cluster uses all cores.
            preexec_fn=lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready_s = time.perf_counter() - began_s
        if not line:
            raise RuntimeError(f"`ottla up` ended with exit code {self._process.wait()}")
        ready = json.loads(line)
        self.addresses, self.connect = ready["brokers"], ready["coordinator"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        end(self._process, STOP_TIMEOUT_S)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, in the form for clients."""
        return ",".join(self.addresses)

    def pid(self, number: int) -> int:
        """Return the process id of a running broker."""
        return int((self.directory / f"broker-{number}" / "pid").read_text())

    def login(self) -> Login:
        """Return the login at the cluster's coordinator."""
        keys = CoordinatorKeys(java_security_auth_login_config=str(self.directory / FILE))
        login = coordinator_security(keys).login
        assert login is not None, "`ottla up` writes one"
        return login

    def send(self, number: int, which: signal.Signals) -> None:
        """Send a signal to a broker."""
        os.kill(self.pid(number), which)

    def cpu_s(self, number: int) -> float:
        """Return the CPU seconds of all threads of a broker so far."""
        tasks = Path(f"/proc/{self.pid(number)}/task")
        return (
            sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
        )


@dataclass(frozen=True, slots=True)
class PartitionNode:
    """A partition's state, and the time of its last write (ms, the coordinator's clock)."""

    leader: int
    isr: tuple[int, ...]
    written_ms: int


class Nodes:
    """Reader of the cluster's nodes, with one session for the complete measurement."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.client = Client(
            cluster.connect, session_timeout_ms=SESSION_TIMEOUT_MS, login=cluster.login()
        )

    async def __aenter__(self) -> Self:
        await self.client.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def controller(self) -> tuple[int, int]:
        """Wait for a controller; return its broker id and the time of its election (ms)."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline_s:
            try:
                data, stat = await self.client.get_data("/controller")
            except NoNodeError:
                await asyncio.sleep(LOOK_INTERVAL_S)
            else:
                return int(json.loads(data or b"{}")["brokerid"]), stat.ctime
        raise RuntimeError("no broker became controller")

    async def partitions(self, topic: str, count: int) -> dict[TopicPartition, PartitionNode]:
        """Return the state of every partition of `topic` that has one."""
        wanted = [TopicPartition(topic, number) for number in range(count)]
        found = await asyncio.gather(*map(self._partition, wanted))
        return {where: node for where, node in zip(wanted, found, strict=True) if node is not None}

    async def _partition(self, where: TopicPartition) -> PartitionNode | None:
        path = f"/brokers/topics/{where.topic}/partitions/{where.partition}/state"
        try:
            data, stat = await self.client.get_data(path)
        except NoNodeError:
            return None
        fields = json.loads(data or b"{}")
        return PartitionNode(fields["leader"], tuple(fields["isr"]), stat.mtime)

    async def wait_until_whole(
        self, topic: str, count: int, replica_count: int
    ) -> Mapping[TopicPartition, PartitionNode]:
        """Return the partitions once each has a leader and all replicas in sync."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline_s:
            found = await self.partitions(topic, count)
            if len(found) == count and all(
                node.leader >= 0 and len(node.isr) == replica_count for node in found.values()
            ):
                return found
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise RuntimeError(f"{topic} lacks in-sync replicas after {SETTLE_TIMEOUT_S} s")
