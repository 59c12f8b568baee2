"""Convergence of a cluster after all faults have ended (invariant 10)."""

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import decode_controller_epoch
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import decode_topic
from kafkawire.ids import TopicPartition
from tests.simulation.cluster.checker import require
from tests.simulation.cluster.world import World


def remaining_fault(world: World) -> str | None:
    """Return a difference from the expected final state, or None."""
    active = [one for one in world.controllers if one.planner.cluster is not None]
    if len(active) != 1:
        return f"{len(active)} controllers"
    cluster = active[0].planner.cluster
    assert cluster is not None
    epoch = decode_controller_epoch(world.coordinator.nodes[paths.CONTROLLER_EPOCH].data)
    if cluster.epoch != epoch:
        return f"the controller has epoch {cluster.epoch}, not {epoch}"
    for parent in (paths.DELETE_TOPICS, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
        if world.coordinator.children(parent):
            return f"work is left in {parent}"
    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION):
        if path in world.coordinator.nodes:
            return f"work is left in {path}"
    if cluster.moving:
        return f"{cluster.moving} are still being reassigned"
    for partition in world.partitions():
        if fault := _partition_fault(world, partition):
            return fault
    return None


def _partition_fault(world: World, partition: TopicPartition) -> str | None:
    node = world.coordinator.nodes.get(paths.partition_state(partition))
    if node is None:
        return f"{partition} has no state"
    state = decode_partition_state(node.data, node.version)
    topic = decode_topic(world.coordinator.nodes[paths.topic(partition.topic)].data)
    assignment = topic.partitions[partition.partition]
    if assignment.is_moving:
        return f"{partition} is still being reassigned"
    if set(state.isr) != set(assignment.replicas):
        return f"{partition}: {state.isr} of {assignment.replicas} are in sync"
    return _replica_fault(world, partition, state) or _metadata_fault(world, partition, state)


def _replica_fault(world: World, partition: TopicPartition, state: LeaderAndIsr) -> str | None:
    logs = [world.disks[one].logs.get(partition) for one in state.isr]
    first = logs[0]
    if first is None or any(log is None or log.records != first.records for log in logs):
        return f"{partition}: the replicas differ"
    leader = world.process(state.leader)
    replica = leader.replicas.get(partition) if leader else None
    if replica is None or replica.leadership is None:
        return f"{partition}: {state.leader} does not lead"
    if replica.high_watermark != replica.log.end:
        return f"{partition}: {replica.high_watermark} of {replica.log.end} are committed"
    if replica.leadership.partition_epoch != state.partition_epoch:
        return f"{partition}: the leader has partition epoch {replica.leadership.partition_epoch}"
    return None


def _metadata_fault(world: World, partition: TopicPartition, state: LeaderAndIsr) -> str | None:
    expected = (state.leader, state.leader_epoch)
    for broker in world.brokers:
        process = world.process(broker)
        if process is None or process.metadata.get(partition) != expected:
            return f"{partition}: broker {broker} has other metadata"
    return None


def settle(world: World, limit_ms: int = 12_000) -> None:
    """End all faults and the producers, and wait until the cluster converges."""
    world.heal()
    world.is_producing = False
    until = world.clock.now_ms + limit_ms
    world.run(200)
    while fault := remaining_fault(world):
        require(world.clock.now_ms < until, f"10: not converged in {limit_ms} ms: {fault}")
        world.run(50)
