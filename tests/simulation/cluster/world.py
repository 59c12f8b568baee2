"""A cluster in virtual time, driven by a seed: brokers, coordinator, producers, operators."""

import functools
import random
import uuid
from collections.abc import Callable, Sequence

from clusterstate.assignment import Dice, assign_replicas
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
    """Everything there is; `run` lets time pass."""

    def __init__(
        self,
        seed: int,
        *,
        broker_count: int = 3,
        min_insync_replicas: int = 2,
        unclean_default: bool = False,
    ) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.dice)
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

    # What processes need

    def process(self, broker_id: BrokerId) -> Process | None:
        """Return the process that runs as a broker now."""
        process = self.processes.get(broker_id)
        return process if process is not None and process.is_alive else None

    def chance(self, probability: float) -> bool:
        """Throw the dice."""
        return self.dice.random() < probability

    def pick_ms(self, limit: int) -> int:
        """Return a number below `limit`."""
        return self.dice.randrange(limit)

    def new_topic_id(self) -> uuid.UUID:
        """Return an id that no topic has."""
        return uuid.UUID(int=self.dice.getrandbits(128))

    def next_number(self) -> int:
        """Return a number that is larger than all before."""
        self._last_number += 1
        return self._last_number

    def on_change(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check a replica that may have changed."""
        self.checker.on_change(broker_id, replica)

    def on_failure(self, error: BaseException) -> None:
        """Take note of a bug."""
        self.failure = error

    # Time

    def run(self, duration_ms: int) -> None:
        """Let time pass; a violation ends the run."""
        until = self.clock.now_ms + duration_ms
        while self.clock.now_ms < until:
            self.step()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 20_000) -> None:
        """Let time pass until `condition` holds."""
        until = self.clock.now_ms + limit_ms
        while not condition():
            if self.clock.now_ms > until:
                raise ViolationError(f"10: nothing came of it in {limit_ms} ms")
            self.step()

    def step(self) -> None:
        """Let the next thing happen, and spread the news of it."""
        self.clock.step()
        fired, self.coordinator.fired = self.coordinator.fired, []
        for one in fired:
            for process in self.processes.values():
                if process.session == one.session:
                    notice = functools.partial(process.on_watch, one)
                    self._notify(process, notice)

    def _notify(self, process: Process, notice: Callable[[], None]) -> None:
        """Deliver a watch's notice: a client that was cut off hears of it when it returns."""

        def deliver() -> None:
            if frozenset((COORDINATOR, process.broker_id)) in self.network.cut:
                self.clock.after(50, deliver)
            else:
                process.act(notice)

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
        self.clock.after(self.dice.randint(1, 2 * PRODUCE_EVERY_MS), self._produce)
        known = [one for one in self.processes.values() if one.is_alive and one.metadata]
        if not known or not self.is_producing:
            return
        process = self.dice.choice(known)
        partition = self.dice.choice(list(process.metadata))
        leader = self.process(BrokerId(process.metadata[partition][0]))
        if leader is not None:
            target = leader
            self.network.send(
                0, target.broker_id, lambda: target.act(lambda: self.append(target, partition))
            )

    def append(self, leader: Process, partition: TopicPartition) -> None:
        """Append a record with acks=all, if the broker leads and enough are in sync."""
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
        """Create a topic as a broker does: by writing its node."""
        racks: dict[BrokerId, str | None] = dict.fromkeys(self.brokers)
        dice = Dice(self.pick_ms(len(racks)), self.pick_ms(len(racks)))
        assigned = assign_replicas(racks, partition_count, replication_factor, dice)
        partitions = {one: ReplicaAssignment(replicas=all_) for one, all_ in assigned.items()}
        path = paths.topic(name)
        if path not in self.coordinator.nodes:
            self.coordinator.put(path, TopicAssignment(self.new_topic_id(), partitions).encode())

    def delete_topic(self, name: str = TOPIC) -> None:
        """Ask for a topic's deletion."""
        if paths.topic_deletion(name) not in self.coordinator.nodes:
            self.coordinator.put(paths.topic_deletion(name))

    def reassign(self, partition: TopicPartition, target: Sequence[BrokerId]) -> None:
        """Ask for a move, as a tool does."""
        if paths.REASSIGN_PARTITIONS not in self.coordinator.nodes:
            data = encode_reassignment({partition: tuple(target)})
            self.coordinator.put(paths.REASSIGN_PARTITIONS, data)

    def elect_preferred(self) -> None:
        """Ask for preferred elections everywhere, as a tool does."""
        if paths.PREFERRED_ELECTION not in self.coordinator.nodes:
            self.coordinator.put(paths.PREFERRED_ELECTION, encode_partitions(self.partitions()))

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions that have been asked for."""
        return [
            TopicPartition(topic, number)
            for topic in self.coordinator.children(paths.TOPICS)
            for number in decode_topic(self.coordinator.nodes[paths.topic(topic)].data).partitions
        ]

    # Trouble

    def start(self, broker: BrokerId) -> None:
        """Start a broker on its disk, unless it runs."""
        if self.process(broker) is None:
            self.processes[broker] = Process(broker, self.disks[broker], self)

    def kill(self, broker: BrokerId, *, is_seen: bool = False) -> None:
        """Kill a broker; if that is seen, its session ends at once."""
        process = self.process(broker)
        if process is not None:
            process.is_alive = False
            if is_seen:
                self.coordinator.end_session(process.session)

    def pause(self, broker: BrokerId) -> None:
        """Stop a broker where it is."""
        process = self.process(broker)
        if process is not None:
            process.is_paused = True

    def resume(self, broker: BrokerId) -> None:
        """Let a paused broker go on."""
        process = self.process(broker)
        if process is not None and process.is_paused:
            process.resume()

    def heal(self) -> None:
        """End all trouble."""
        self.network.cut.clear()
        faults = self.network.faults
        faults.lose = faults.repeat = faults.slow = 0.0
        for broker in self.brokers:
            self.resume(broker)
            self.start(broker)

    @property
    def controllers(self) -> list[Process]:
        """The processes that believe to be controller."""
        return [one for one in self.processes.values() if one.is_alive and one.planner.is_active]
