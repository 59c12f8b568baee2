"""Random faults and operations on a cluster."""

from collections.abc import Callable

from clusterstate.assignment import RandomStart, assign_replicas
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from kafkawire.ids import BrokerId, TopicPartition
from tests.simulation.cluster.process import COORDINATOR
from tests.simulation.cluster.world import TOPIC, World

OTHER_TOPIC = "other"


class Trouble:
    """Schedules one random fault or operation after another, until the producers stop."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.happened: list[str] = []
        self._kinds: list[Callable[[], None]] = [
            *[self.kill] * 4,
            *[self.pause] * 3,
            *[self.cut] * 4,
            self.expire_session,
            self.delete_controller,
            self.reassign,
            self.elect_preferred,
            self.grow,
            self.create_or_delete,
        ]
        self._next()

    def _next(self) -> None:
        self.world.clock.after(self.world.rng.randint(50, 500), self._happen)

    def _happen(self) -> None:
        if self.world.is_producing:
            kind = self.world.rng.choice(self._kinds)
            self.happened.append(f"{self.world.clock.now_ms} {kind.__name__}")
            kind()
            self._next()

    def _after(self, action: Callable[[], None], limit_ms: int = 1500) -> None:
        self.world.clock.after(self.world.rng.randint(20, limit_ms), action)

    def _broker(self) -> BrokerId:
        """Return a broker; often the controller, because it matters most."""
        controllers = self.world.controllers
        if controllers and self.world.chance(0.4):
            return self.world.rng.choice(controllers).broker_id
        return self.world.rng.choice(self.world.brokers)

    def kill_leader(self) -> None:
        """Kill the leader of a partition; its session ends at once."""
        partition = TopicPartition(TOPIC, 0)
        node = self.world.coordinator.nodes[paths.partition_state(partition)]
        leader = decode_partition_state(node.data, node.version).leader
        self.world.kill(leader, is_seen=True)
        self._after(lambda: self.world.start(leader))

    def kill(self) -> None:
        """Kill and restart a broker, sometimes before its session expires."""
        broker = self._broker()
        self.world.kill(broker, is_seen=self.world.chance(0.5))
        self._after(lambda: self.world.start(broker))

    def pause(self) -> None:
        """Pause a broker, sometimes until after its session has expired."""
        broker = self._broker()
        self.world.pause(broker)
        self._after(lambda: self.world.resume(broker))

    def cut(self) -> None:
        """Partition two brokers, or a broker and the coordinator, from each other."""
        pair = frozenset(
            (self._broker(), self.world.rng.choice([*self.world.brokers, COORDINATOR]))
        )
        self.world.network.cut.add(pair)
        self._after(lambda: self.world.network.cut.discard(pair))

    def expire_session(self) -> None:
        """End the session of a broker without notifying it."""
        process = self.world.process(self._broker())
        if process is not None:
            self.world.coordinator.end_session(process.session)

    def delete_controller(self) -> None:
        """Delete the controller's znode, as an operator may."""
        if paths.CONTROLLER in self.world.coordinator.nodes:
            self.world.coordinator.remove(paths.CONTROLLER)

    def reassign(self) -> None:
        """Reassign a partition."""
        if partitions := self.world.partitions():
            count = self.world.rng.randint(1, len(self.world.brokers))
            target = self.world.rng.sample(self.world.brokers, count)
            self.world.reassign(self.world.rng.choice(partitions), target)

    def elect_preferred(self) -> None:
        """Request preferred leader elections."""
        self.world.elect_preferred()

    def grow(self) -> None:
        """Add a partition to a topic, by rewriting its znode."""
        path = paths.topic(TOPIC)
        node = self.world.coordinator.nodes.get(path)
        if node is None:
            return
        topic = decode_topic(node.data)
        number = len(topic.partitions)
        if number < 4:
            racks: dict[BrokerId, str | None] = dict.fromkeys(self.world.brokers)
            added = assign_replicas(racks, 1, 2, RandomStart(number, 0), first_partition=number)
            grown = {one: ReplicaAssignment(replicas=all_) for one, all_ in added.items()}
            data = TopicAssignment(topic.topic_id, {**topic.partitions, **grown}).encode()
            self.world.coordinator.put(path, data)

    def create_or_delete(self) -> None:
        """Create a topic, or delete it if it exists; the name is always the same."""
        if paths.topic(OTHER_TOPIC) in self.world.coordinator.nodes:
            self.world.delete_topic(OTHER_TOPIC)
        else:
            self.world.create_topic(OTHER_TOPIC, partition_count=1, replication_factor=2)
