"""A whole cluster in one world: the real brokers, the real coordinator, and their hosts."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from broker.config.broker_config import BrokerConfig
from broker.node import Node
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from coordination.server.coordinator import Coordinator
from coordination.server.coordinator_config import Address, CoordinatorConfig
from kafkawire.ids import TopicPartition
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import Process
from tests.simulation.world.script import BROKERS

COORDINATOR_HOST: Final = "zk"
COORDINATOR_PORT: Final = 2181
BROKER_PORT: Final = 9092
SESSION_TIMEOUT_MS: Final = 6000
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "2000",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "2",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.connect": f"{COORDINATOR_HOST}:{COORDINATOR_PORT}",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


def replication_settings(replica_count: int) -> dict[str, str]:
    """Return the settings with which an acknowledged record is on two brokers, if there are two."""
    in_sync_count = min(replica_count, 2)
    return {
        "default.replication.factor": str(replica_count),
        "min.insync.replicas": str(in_sync_count),
        "offsets.topic.replication.factor": str(replica_count),
        "transaction.state.log.min.isr": str(in_sync_count),
        "transaction.state.log.replication.factor": str(replica_count),
    }


class Host(ABC):
    """A machine with one program, which is started, stopped, killed and paused."""

    def __init__(self, loop: WorldLoop, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.root.mkdir(parents=True, exist_ok=True)
        self.process: Process | None = None
        self.program: Any = None
        self.has_started = False
        self.runs: list[Process] = []
        """All processes: the collection of a dead one would run its `finally` clauses."""
        self._loop = loop
        self.disk = loop.files.add_disk(root)
        self.disk.lose_power = self.lose_power

    @property
    def is_up(self) -> bool:
        """Whether the program runs."""
        return self.process is not None and not self.process.is_dead

    def boot(self) -> asyncio.Task[None]:
        """Start the program; the task ends when it serves, or fails as its start did."""
        assert not self.is_up
        self._loop.network.dark.discard(self.name)
        process = self.process = Process(self.name)
        self.runs.append(process)
        self.has_started = False
        started: asyncio.Task[None] = self._loop.create_task(
            self._count_start(), context=process.context
        )
        process.tasks.append(started)
        return started

    async def _count_start(self) -> None:
        end = self._loop.overlaps.begin(f"start of {type(self).__name__}")
        try:
            await self._start()
        finally:
            end()

    @abstractmethod
    async def _start(self) -> None:
        """Run the program; this ends when it serves."""

    def kill(self) -> None:
        """End the program at once."""
        process = self.process
        assert process is not None
        process.death.set()
        self._loop.network.on_death(process)

    def lose_power(self) -> None:
        """End the program, lose its unsynced data, and reset no connection."""
        process = self.process
        assert process is not None
        process.death.set()
        self._loop.network.on_power_lost(process)
        self._loop.boot_counts[self.name] += 1
        self.disk.crash()


class BrokerHost(Host):
    """A host with a broker."""

    def __init__(self, loop: WorldLoop, number: int, root: Path, **settings: str) -> None:
        super().__init__(loop, f"b{number}", root / f"b{number}")
        self.number = number
        self.is_stopping = False
        self.has_stopped = False
        """Whether the last run of the program ended in order."""
        count = loop.chance.choice((1, 2))
        self.log_dirs = [self.root / f"d{number}" for number in range(count)]
        self._settings = settings

    @property
    def other_name(self) -> str:
        """Another name of the host."""
        return f"{self.name}.other"

    @property
    def may_stop(self) -> bool:
        """Whether the program runs and nobody stops it yet."""
        return self.is_up and self.has_started and not self.is_stopping

    async def stop(self) -> None:
        """Stop the program in order, which `may_stop`."""
        process = self.process
        assert process is not None
        self.is_stopping = True
        task = self._loop.create_task(self._count_stop(), context=process.context)
        process.tasks.append(task)
        await task
        self._loop.network.on_death(process)
        process.death.set()
        self.has_stopped = True

    async def _count_stop(self) -> None:
        end = self._loop.overlaps.begin("stop of BrokerHost")
        await self.program.stop()
        end()

    async def _start(self) -> None:
        self.is_stopping = self.has_stopped = False
        self.program = node = self.new_node()
        await node.start()
        self.has_started = True

    def new_node(self) -> Node:
        """Return the broker of this host; it runs in the process that starts it."""
        address = f"PLAINTEXT://{self.name}:{BROKER_PORT}"
        config = BrokerConfig.from_properties(
            SETTINGS
            | {
                "broker.id": str(self.number),
                "listeners": address,
                "advertised.listeners": address,
                "log.dirs": ",".join(map(str, self.log_dirs)),
            }
            | self._settings
        )
        return Node(config, self._loop)


class CoordinatorHost(Host):
    """The host with the coordinator."""

    def __init__(self, loop: WorldLoop, root: Path) -> None:
        super().__init__(loop, COORDINATOR_HOST, root / COORDINATOR_HOST)

    async def _start(self) -> None:
        config = CoordinatorConfig(listen=Address(COORDINATOR_HOST, COORDINATOR_PORT))
        self.program = coordinator = Coordinator(config, self.root)
        await coordinator.start()
        self.has_started = True


class Cluster:
    """The hosts of one world."""

    def __init__(self, loop: WorldLoop, root: Path, count: int) -> None:
        self.loop = loop
        self.replica_count = min(count, BROKERS)
        """Replicas of each topic with promises."""
        self.keeps_all_replicas = True
        """Whether each partition with promises always has as many replicas as at first."""
        self.coordinator = CoordinatorHost(loop, root)
        settings = replication_settings(self.replica_count)
        self.brokers = [
            BrokerHost(loop, number, root, **settings) for number in range(1, count + 1)
        ]
        for host in self.hosts:
            loop.network.address_of(host.name)
        for broker in self.brokers:
            loop.network.add_name(broker.other_name, broker.name)

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        return ",".join(f"{host.name}:{BROKER_PORT}" for host in self.brokers)

    @property
    def hosts(self) -> list[Host]:
        """The coordinator's host and the hosts of the brokers."""
        return [self.coordinator, *self.brokers]

    def is_in_sync(self) -> bool:
        """Whether every broker serves and every replica is in sync."""
        if not self.coordinator.has_started or not self.coordinator.is_up:
            return False
        if not all(host.is_up and host.has_started for host in self.brokers):
            return False
        assignments = self.assignments()
        return all(
            set(state.isr) == set(assignments[topic].partitions[number].replicas)
            for (topic, number), state in self.partition_states().items()
        )

    @property
    def nodes(self) -> Mapping[str, Any]:
        """The coordinator's nodes by path; none while it does not run."""
        state = self._coordinated
        return {} if state is None else state.tree.nodes

    @property
    def last_transaction(self) -> int | None:
        """Number of the coordinator's last transaction; None while it does not run."""
        state = self._coordinated
        return None if state is None else state.zxid

    @property
    def _coordinated(self) -> Any:
        server = self.coordinator.program._server if self.coordinator.is_up else None
        return None if server is None else server.service.state

    def assignments(self) -> dict[str, TopicAssignment]:
        """Return the assignment of each topic, as the coordinator holds it."""
        nodes = self.nodes
        if paths.TOPICS not in nodes:
            return {}
        return {
            name: decode_topic(nodes[paths.topic(name)].data)
            for name in nodes[paths.TOPICS].children or ()
        }

    def partition_states(self) -> dict[TopicPartition, LeaderAndIsr]:
        """Return leader and in-sync set of each partition, as the coordinator holds them."""
        nodes, states = self.nodes, {}
        for topic, assignment in self.assignments().items():
            for number in assignment.partitions:
                partition = TopicPartition(topic, number)
                node = nodes.get(paths.partition_state(partition))
                if node is not None:
                    states[partition] = decode_partition_state(node.data, node.version)
        return states

    async def boot(self) -> None:
        """Start all programs."""
        await self.coordinator.boot()
        await asyncio.gather(*(host.boot() for host in self.brokers))
