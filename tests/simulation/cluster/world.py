"""A cluster in virtual time, driven by a seed: brokers, coordinator, producers, operators."""

import functools
import random
import uuid
from collections.abc import Callable, Sequence

from clusterstate.assignment import RandomStart, assign_replicas
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.admin import encode_reassignment
from clusterstate.znodes.notification import encode_partitions
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from kafkawire.ids import BrokerId, TopicPartition
from tests.simulation.cluster.checker import Checker, ViolationError
from tests.simulation.cluster.coordinator import Coordinator
from tests.simulation.cluster.network import Clock, Network
from tests.simulation.cluster.process import COORDINATOR, Disk, Process
from tests.simulation.cluster.replica import Replica

SESSION_TIMEOUT_MS = 500
HEARTBEAT_MS = 100
PRODUCE_EVERY_MS = 12
TOPIC = "orders"


class World:
    """A whole simulated cluster; `run` advances its time."""

    def __init__(
        self,
        seed: int,
        *,
        broker_count: int = 3,
        min_insync_replicas: int = 2,
        unclean_default: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.rng)
        self.coordinator = Coordinator()
        self.min_insync_replicas = min_insync_replicas
        self.unclean_default = unclean_default
        self.brokers = [BrokerId(number) for number in range(1, broker_count + 1)]
        self.disks = {broker: Disk() for broker in self.brokers}
        self.processes: dict[BrokerId, Process] = {}
        self.checker = Checker(self.coordinator, self.disks)
        self.failure: BaseException | None = None
        self.appended = 0
        self.is_producing = True
        self._seen: dict[int, int] = {}
        self._last_number = 0
        for broker in self.brokers:
            self.start(broker)
        self._heartbeat()
        self._produce()

    # Interface for processes

    def process(self, broker_id: BrokerId) -> Process | None:
        """Return the live process of a broker, if any."""
        process = self.processes.get(broker_id)
        return process if process is not None and process.is_alive else None

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def pick_ms(self, limit: int) -> int:
        """Return a random number below `limit`."""
        return self.rng.randrange(limit)

    def new_topic_id(self) -> uuid.UUID:
        """Return an unused topic id."""
        return uuid.UUID(int=self.rng.getrandbits(128))

    def next_number(self) -> int:
        """Return a number larger than all earlier ones."""
        self._last_number += 1
        return self._last_number

    def on_change(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check a replica that may have changed."""
        self.checker.on_change(broker_id, replica)

    def on_failure(self, error: BaseException) -> None:
        """Record a bug."""
        self.failure = error

    # Time

    def run(self, duration_ms: int) -> None:
        """Advance the time by `duration_ms`; a violation ends the run."""
        until = self.clock.now_ms + duration_ms
        while self.clock.now_ms < until:
            self.step()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 20_000) -> None:
        """Advance the time until `condition` holds."""
        until = self.clock.now_ms + limit_ms
        while not condition():
            if self.clock.now_ms > until:
                raise ViolationError(f"10: the condition does not hold after {limit_ms} ms")
            self.step()

    def step(self) -> None:
        """Run the next action, and send the notifications that it causes."""
        self.clock.step()
        fired, self.coordinator.fired = self.coordinator.fired, []
        for one in fired:
            for process in self.processes.values():
                if process.session == one.session:
                    notification = functools.partial(process.on_watch, one)
                    self._notify(process, notification)

    def _notify(self, process: Process, notification: Callable[[], None]) -> None:
        """Deliver a watch's notification; a partitioned client gets it when it reconnects."""

        def deliver() -> None:
            if frozenset((COORDINATOR, process.broker_id)) in self.network.cut:
                self.clock.after(50, deliver)
            else:
                process.act(notification)

        self.clock.after(self.network.delay_ms(), deliver)

    def _heartbeat(self) -> None:
        for process in self.processes.values():
            is_cut = frozenset((COORDINATOR, process.broker_id)) in self.network.cut
            if process.is_alive and not process.is_paused and not is_cut:
                self._seen[process.session] = self.clock.now_ms
        for session in list(self.coordinator.sessions):
            if self.clock.now_ms - self._seen.setdefault(session, self.clock.now_ms) > (
                SESSION_TIMEOUT_MS
            ):
                self.coordinator.end_session(session)
        self.clock.after(HEARTBEAT_MS, self._heartbeat)

    # Producers

    def _produce(self) -> None:
        self.clock.after(self.rng.randint(1, 2 * PRODUCE_EVERY_MS), self._produce)
        known = [one for one in self.processes.values() if one.is_alive and one.metadata]
        if not known or not self.is_producing:
            return
        process = self.rng.choice(known)
        partition = self.rng.choice(list(process.metadata))
        leader = self.process(BrokerId(process.metadata[partition][0]))
        if leader is not None:
            target = leader
            self.network.send(
                0, target.broker_id, lambda: target.act(lambda: self.append(target, partition))
            )

    def append(self, leader: Process, partition: TopicPartition) -> None:
        """Append a record with acks=all, if the broker leads and min ISR is met."""
        replica = leader.replicas.get(partition)
        if replica is None or replica.leadership is None or not replica.leadership.has_min_isr:
            return
        self.appended += 1
        replica.append(self.appended, self.clock.now_ms)
        self.checker.on_append(leader.broker_id, replica)
        self.on_change(leader.broker_id, replica)

    # Operators

    def create_topic(
        self, name: str = TOPIC, partition_count: int = 2, replication_factor: int = 3
    ) -> None:
        """Create a topic as a broker does: by writing its znode."""
        racks: dict[BrokerId, str | None] = dict.fromkeys(self.brokers)
        start = RandomStart(self.pick_ms(len(racks)), self.pick_ms(len(racks)))
        assigned = assign_replicas(racks, partition_count, replication_factor, start)
        partitions = {one: ReplicaAssignment(replicas=all_) for one, all_ in assigned.items()}
        path = paths.topic(name)
        if path not in self.coordinator.nodes:
            self.coordinator.put(path, TopicAssignment(self.new_topic_id(), partitions).encode())

    def delete_topic(self, name: str = TOPIC) -> None:
        """Request the deletion of a topic."""
        if paths.topic_deletion(name) not in self.coordinator.nodes:
            self.coordinator.put(paths.topic_deletion(name))

    def reassign(self, partition: TopicPartition, target: Sequence[BrokerId]) -> None:
        """Request a reassignment, as a tool does."""
        if paths.REASSIGN_PARTITIONS not in self.coordinator.nodes:
            data = encode_reassignment({partition: tuple(target)})
            self.coordinator.put(paths.REASSIGN_PARTITIONS, data)

    def elect_preferred(self) -> None:
        """Request preferred elections of all partitions, as a tool does."""
        if paths.PREFERRED_ELECTION not in self.coordinator.nodes:
            self.coordinator.put(paths.PREFERRED_ELECTION, encode_partitions(self.partitions()))

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions in the znodes of topics."""
        return [
            TopicPartition(topic, number)
            for topic in self.coordinator.children(paths.TOPICS)
            for number in decode_topic(self.coordinator.nodes[paths.topic(topic)].data).partitions
        ]

    # Faults

    def start(self, broker: BrokerId) -> None:
        """Start a broker on its disk, unless it is running."""
        if self.process(broker) is None:
            self.processes[broker] = Process(broker, self.disks[broker], self)

    def kill(self, broker: BrokerId, *, is_seen: bool = False) -> None:
        """Kill a broker; with `is_seen`, its session ends at once."""
        process = self.process(broker)
        if process is not None:
            process.is_alive = False
            if is_seen:
                self.coordinator.end_session(process.session)

    def pause(self, broker: BrokerId) -> None:
        """Pause a broker."""
        process = self.process(broker)
        if process is not None:
            process.is_paused = True

    def resume(self, broker: BrokerId) -> None:
        """Resume a paused broker."""
        process = self.process(broker)
        if process is not None and process.is_paused:
            process.resume()

    def heal(self) -> None:
        """End all faults, and resume or restart all brokers."""
        self.network.cut.clear()
        faults = self.network.faults
        faults.lose = faults.repeat = faults.slow = 0.0
        for broker in self.brokers:
            self.resume(broker)
            self.start(broker)

    @property
    def controllers(self) -> list[Process]:
        """Live processes that believe they are the controller."""
        return [one for one in self.processes.values() if one.is_alive and one.planner.is_active]
