"""A controller that dies before any of its writes: the next one completes the change."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pytest

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.notification import encode_partitions
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from clusterstate.znodes.topic import decode_topic
from controller import events as e
from controller.controller_config import ControllerConfig
from controller.effects import Effect, Enqueue, Send
from controller.plan import Planner
from kafkawire.ids import BrokerId, TopicId, TopicPartition
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from tests.plans.coordinator import Coordinator
from tests.plans.driver import empty_cluster, join, put_topic

B1, B2, B3 = map(BrokerId, (1, 2, 3))
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class DiedError(Exception):
    """The controller died before a write."""


def following(effects: Iterable[Effect]) -> Iterator[e.Event]:
    """Yield the events of the controller itself, and of brokers that delete replicas."""
    for effect in effects:
        if isinstance(effect, Enqueue) and not effect.delay_ms:
            yield effect.event
        for sent in effect.requests if isinstance(effect, Send) else ():
            if isinstance(sent.message, StopReplicaRequest):
                deleted = [
                    TopicPartition(topic.topic_name, each.partition_index)
                    for topic in sent.message.topic_states
                    for each in topic.partition_states
                    if each.delete_partition
                ]
                yield e.StopReplicaResponseReceived(
                    sent.broker_id, sent.broker_epoch, StopReplicaResponse(), deleted
                )


class Node:
    """A broker, with its session and its controller component."""

    def __init__(self, coordinator: Coordinator, broker: BrokerId) -> None:
        self.driver = join(coordinator, broker)
        self.planner = Planner(ControllerConfig(broker_id=broker), lambda: TopicId(int=9))

    def serve(self, *events: e.Event) -> None:
        """Handle events as the controller, and all events that follow from them."""
        waiting = deque(events)
        while waiting:
            self.driver.run(self.planner.plan(waiting.popleft(), 0))
            waiting.extend(following(self.driver.effects))
            self.driver.effects.clear()


class Change(NamedTuple):
    """A change of the cluster, which begins with a write of a client or with a request."""

    event: e.Event
    begin: Callable[[Node], object]
    is_done: Callable[[Coordinator], bool]


def state(coordinator: Coordinator, partition: TopicPartition) -> LeaderAndIsr:
    node = coordinator.nodes[paths.partition_state(partition)]
    return decode_partition_state(node.data, node.version)


def leaders(coordinator: Coordinator, topic: str, count: int) -> list[BrokerId]:
    partitions = [TopicPartition(topic, number) for number in range(count)]
    return [state(coordinator, each).leader for each in partitions]


def assigned(coordinator: Coordinator, partition: TopicPartition) -> ReplicaAssignment:
    topic = decode_topic(coordinator.nodes[paths.topic(partition.topic)].data)
    return topic.partitions[partition.partition]


CHANGES = {
    "creation": Change(
        e.TopicChange(),
        lambda node: put_topic(node.driver.coordinator, (2, 1), (3, 1), name="new"),
        lambda coordinator: leaders(coordinator, "new", 2) == [B2, B3],
    ),
    "expansion": Change(
        e.PartitionModification("orders"),
        lambda node: put_topic(node.driver.coordinator, (2, 3), (2,), (3, 1), (2, 1)),
        lambda coordinator: leaders(coordinator, "orders", 4) == [B2, B2, B3, B2],
    ),
    "deletion": Change(
        e.TopicDeletion(),
        lambda node: node.driver.coordinator.put(paths.topic_deletion("orders")),
        lambda coordinator: not [path for path in coordinator.nodes if "orders" in path],
    ),
    "move": Change(
        e.ReassignmentRequested({T1: [B3]}),
        lambda _: None,
        lambda coordinator: assigned(coordinator, T1) == ReplicaAssignment((B3,)),
    ),
    "removal": Change(
        e.ReassignmentRequested({T0: [B3]}),
        lambda _: None,
        lambda coordinator: assigned(coordinator, T0) == ReplicaAssignment((B3,)),
    ),
    "election": Change(
        e.ElectLeadersRequested(None),
        # Another replica becomes the preferred one, which moves no leader.
        lambda node: node.serve(e.ReassignmentRequested({T0: [B3, B2]})),
        lambda coordinator: leaders(coordinator, "orders", 2) == [B3, B2],
    ),
}
REQUESTS = (e.ReassignmentRequested, e.ElectLeadersRequested)


def catch_up(coordinator: Coordinator) -> e.Event:
    """Let the replica that is added get in sync, and the leader write that itself."""
    joined = state(coordinator, T1)._replace(isr=(B2, B3))
    coordinator.put(paths.partition_state(T1), encode_partition_state(joined, 1))
    coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T1]))
    return e.IsrChange()


def died_before(write: int, change: Change) -> bool:
    """Let broker 1 die before this write, and broker 2 follow; return False if it wrote less."""
    coordinator = empty_cluster().coordinator
    first, second, _ = (Node(coordinator, each) for each in (B1, B2, B3))
    put_topic(coordinator, (2, 3), (2,))
    first.serve(e.Reelect())
    change.begin(first)
    written = 0

    def count() -> None:
        nonlocal written
        if written == write:
            raise DiedError
        written += 1

    first.driver.before_write = count
    try:
        first.serve(change.event)
    except DiedError:
        coordinator.end_session(first.driver.session)
        second.serve(e.Reelect())
        if write == 0 and isinstance(change.event, REQUESTS):
            # Nothing is known of the request, so the client repeats it.
            second.serve(change.event)
        if change is CHANGES["move"]:
            second.serve(catch_up(coordinator))
        assert change.is_done(coordinator), f"died before write {write}: {coordinator.nodes}"
        return True
    return False


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_controller_completes_a_change(change: Change) -> None:
    write = 0
    while died_before(write, change):
        write += 1
    assert write > 0
