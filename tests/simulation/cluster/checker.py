"""Invariants that must hold after every step of the simulation, regardless of faults.

Their numbers: one writer per leader epoch (1), committed records on every in-sync replica (2), the
high watermark (3), growing epochs and fenced znodes (4), leader within in-sync set within
assignment (5), equal prefixes of logs (6), metadata that finally reaches all brokers (10).
"""

from collections.abc import Iterable, Mapping

from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import decode_controller_epoch
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import decode_topic
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER
from tests.simulation.cluster.coordinator import Coordinator
from tests.simulation.cluster.fake_log import FakeLog, Record
from tests.simulation.cluster.process import Disk
from tests.simulation.cluster.replica import Replica


class ViolationError(AssertionError):
    """An invariant does not hold."""


def require(condition: bool, text: str) -> None:
    """Raise a ViolationError unless `condition`."""
    if not condition:
        raise ViolationError(text)


class Checker:
    """Checks the coordinator's znodes and the brokers' logs."""

    def __init__(self, coordinator: Coordinator, disks: Mapping[BrokerId, Disk]) -> None:
        self.committed: dict[TopicPartition, list[Record]] = {}
        self.unclean: set[TopicPartition] = set()
        self.elections = 0
        self._coordinator = coordinator
        self._disks = disks
        self._writers: dict[tuple[TopicPartition, object, int], BrokerId] = {}
        coordinator.observers.append(self._on_node)

    # Znodes

    def _on_node(self, path: str, old: bytes | None, new: bytes | None) -> None:
        if path == paths.CONTROLLER_EPOCH and old and new:
            grown = decode_controller_epoch(new) - decode_controller_epoch(old)
            require(grown == 1, f"4: the controller epoch grew by {grown}")
        elif path.startswith(paths.TOPICS) and path.endswith("/state") and new:
            self._on_state(_partition_of(path), old, new)
        elif path.startswith(paths.TOPICS) and path.endswith("/state"):
            self._forget(_partition_of(path))
        elif path.startswith(paths.TOPICS) and not new:
            # A replica that left the topic before may have shown records since its state went.
            for partition in [each for each in self.committed if paths.topic(each.topic) == path]:
                self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        self.committed.pop(partition, None)
        self.unclean.discard(partition)

    def _on_state(self, partition: TopicPartition, old: bytes | None, new: bytes) -> None:
        after = decode_partition_state(new, 0)
        epoch = decode_controller_epoch(self._coordinator.nodes[paths.CONTROLLER_EPOCH].data)
        require(
            after.controller_epoch == epoch,
            f"4: {partition} written in controller epoch {after.controller_epoch}, not {epoch}",
        )
        require(bool(after.isr), f"5: {partition} has an empty in-sync set")
        in_set = after.leader == NO_LEADER or after.leader in after.isr
        require(in_set, f"5: leader {after.leader} of {partition} not in {after.isr}")
        node = self._coordinator.nodes.get(paths.topic(partition.topic))
        if node is not None:
            assigned = decode_topic(node.data).partitions[partition.partition].replicas
            require(set(after.isr) <= set(assigned), f"5: {after.isr} not within {assigned}")
        if old is not None:
            self._on_changed_state(partition, decode_partition_state(old, 0), after)
        if after.recovery_state is LeaderRecoveryState.RECOVERING:
            self.unclean.add(partition)
        self.check_isr(partition, after.isr)

    def _on_changed_state(
        self, partition: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr
    ) -> None:
        self.elections += before.leader_epoch != after.leader_epoch
        grows = after.leader_epoch >= before.leader_epoch
        moved = before.leader != after.leader
        require(
            grows and (not moved or after.leader_epoch > before.leader_epoch),
            f"4: {partition} went from {before} to {after}",
        )

    # Logs

    def on_append(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check that a leader epoch has only one writer."""
        assert replica.leadership is not None
        key = (replica.partition, replica.topic_id, int(replica.leadership.leader_epoch))
        writer = self._writers.setdefault(key, broker_id)
        require(writer == broker_id, f"1: {broker_id} and {writer} both lead {key}")

    def on_change(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check one replica, and record the records that its leadership has committed."""
        partition, log = replica.partition, replica.log
        require(replica.high_watermark <= log.end, f"3: {partition} on {broker_id}: above the end")
        if self._disks[broker_id].logs.get(partition) is not log or self._is_stale(replica):
            return
        self._check_progress(broker_id, replica)
        if partition not in self.unclean:
            self._check_committed(broker_id, replica)
        self._check_matching(partition)

    def _check_progress(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check that the leader epoch never decreases, nor the watermark within an epoch."""
        epoch = -1 if replica.leader_epoch is None else int(replica.leader_epoch)
        require(
            epoch >= replica.checked_epoch,
            f"4: {broker_id} went back to epoch {epoch} of {replica.partition}",
        )
        if replica.leadership is not None:
            mark = replica.leadership.high_watermark
            has_gone_back = epoch == replica.checked_epoch and mark < replica.checked_mark
            require(not has_gone_back, f"3: the watermark of {replica.partition} went back")
            replica.checked_mark = mark
        replica.checked_epoch = epoch

    def _is_stale(self, replica: Replica) -> bool:
        """Whether a replica belongs to a deleted topic."""
        node = self._coordinator.nodes.get(paths.topic(replica.partition.topic))
        return node is None or decode_topic(node.data).topic_id != replica.topic_id

    def _check_committed(self, broker_id: BrokerId, replica: Replica) -> None:
        partition, mark = replica.partition, replica.high_watermark
        committed = self.committed.setdefault(partition, [])
        shown = replica.log.records[:mark]
        known = min(mark, len(committed))
        require(
            shown[:known] == committed[:known],
            f"2: {partition} on {broker_id} shows other records below its watermark {mark}",
        )
        if replica.leadership is not None and mark > len(committed):
            committed += shown[len(committed) :]
            node = self._coordinator.nodes.get(paths.partition_state(partition))
            if node is not None:
                self.check_isr(partition, decode_partition_state(node.data, 0).isr)

    def check_isr(self, partition: TopicPartition, isr: Iterable[BrokerId]) -> None:
        """Check that every in-sync replica holds all committed records."""
        committed = self.committed.get(partition, [])
        is_doomed = paths.topic_deletion(partition.topic) in self._coordinator.nodes
        if partition in self.unclean or is_doomed or not committed:
            return
        for broker in isr:
            log = self._disks[broker].logs.get(partition)
            held = log.records[: len(committed)] if log else []
            require(
                held == committed,
                f"2: {broker}, in sync, holds {len(held)} of {len(committed)} of {partition}",
            )

    def _check_matching(self, partition: TopicPartition) -> None:
        logs = [
            disk.logs[partition]
            for disk in self._disks.values()
            if partition in disk.logs and self._is_current(disk, partition)
        ]
        for number, one in enumerate(logs):
            for other in logs[:number]:
                _check_pair(partition, one, other)

    def _is_current(self, disk: Disk, partition: TopicPartition) -> bool:
        node = self._coordinator.nodes.get(paths.topic(partition.topic))
        return node is not None and decode_topic(node.data).topic_id == disk.topic_ids[partition]


def _check_pair(partition: TopicPartition, one: FakeLog, other: FakeLog) -> None:
    for offset in range(min(one.end, other.end) - 1, -1, -1):
        if one.records[offset].epoch == other.records[offset].epoch:
            upto = offset + 1
            same = one.records[:upto] == other.records[:upto]
            require(same, f"6: logs of {partition} agree on the epoch at {offset}, not below")
            return


def _partition_of(path: str) -> TopicPartition:
    parts = path.split("/")
    return TopicPartition(parts[3], int(parts[5]))
