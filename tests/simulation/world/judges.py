"""Judges of a running cluster: they compare the states of its nodes with the promises to clients.

They read the objects of the nodes, and the tree of the coordinator, between two callbacks. The
coordinator's tree says which leadership of a partition is the current one; a leader that does not
know of its successor yet may lack later records.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from broker.replication.replica import Replica
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes.topic import TopicAssignment
from kafkawire.consumer_protocol import decode_assignment
from kafkawire.group_records import OFFSETS_TOPIC
from kafkawire.ids import ZERO_TOPIC_ID, Offset, TopicPartition
from kafkawire.records import iterate_batches
from kafkawire.units import MIB
from storage.disk.checkpoint import read_entries
from storage.disk.layout import HIGH_WATERMARK_CHECKPOINT, DirectoryState
from storage.errors import CorruptCheckpointError
from tests.simulation.world.cluster import BrokerHost, Cluster

LOOK_S: Final = 0.5
REST_S: Final = 60.0
"""Virtual time after the last fault, within which every replica is in sync again."""


class Led(NamedTuple):
    """A replica that leads in the epoch which the coordinator holds."""

    host: BrokerHost
    replica: Replica
    state: LeaderAndIsr


class Judges:
    """Looks at the cluster again and again; each look raises AssertionError for a violation."""

    def __init__(self, cluster: Cluster, topic: str, promised: Mapping[int, int]) -> None:
        """Expect every leader of `topic` to hold the records below `promised`, by partition."""
        self.deletions: Counter[str] = Counter()
        """Deletions that were requested, by topic. A topic has one id between two of them."""
        self._cluster = cluster
        self._topic = topic
        self._promised = promised
        self._leaders: dict[tuple[object, ...], str] = {}
        self._controllers: dict[int, str] = {}
        self._broker_epochs: dict[str, tuple[object, int]] = {}
        self._high_watermarks: dict[tuple[object, ...], int] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._topic_ids: dict[str, set[object]] = {}
        self._stored: dict[tuple[object, ...], dict[str, int]] = {}
        self._first_stored: dict[tuple[object, ...], dict[str, int]] = {}

    def look(self) -> None:
        """Judge the present state."""
        for host in self._running():
            self._judge_epochs(host)
            self._judge_checkpoints(host)
            for replica in host.program._replicas.table:
                self._judge_replica(host, replica)
        for led in self._led():
            self._judge_leader(led)
            self._judge_followers(led)
            self._judge_groups(led)

    async def rest(self) -> None:
        """Wait until every replica is in sync; then compare the replicas.

        Raises:
            AssertionError: they do not get in sync, or differ.
        """
        loop = self._cluster.loop
        end_s = loop.time() + REST_S
        while faults := self._unrest():
            assert loop.time() < end_s, "; ".join(faults)
            await asyncio.sleep(LOOK_S)
        for partition, state in self._cluster.partition_states().items():
            self._compare(partition, state)

    # The present state

    def _running(self) -> Iterator[BrokerHost]:
        for host in self._cluster.brokers:
            if host.is_up and hasattr(host.program, "_replicas"):
                yield host

    def _led(self) -> Iterator[Led]:
        states = self._cluster.partition_states()
        for host in self._running():
            for replica in host.program._replicas.table:
                state = states.get(replica.topic_partition)
                if state is None or replica.leadership is None:
                    continue
                if replica.leader_epoch == state.leader_epoch:
                    yield Led(host, replica, state)

    # Judgements at any time

    def _judge_epochs(self, host: BrokerHost) -> None:
        node, epoch = host.program, host.program._fence.broker_epoch
        last_node, last = self._broker_epochs.get(host.name, (node, -1))
        if epoch >= 0:
            least = last if node is last_node else last + 1
            assert epoch >= least, f"{host.name} has broker epoch {epoch} after {last}"
            self._broker_epochs[host.name] = (node, epoch)
        cluster = node._member.controller._controller._planner.cluster
        if cluster is not None:
            first = self._controllers.setdefault(cluster.epoch, host.name)
            assert first == host.name, f"{first} and {host.name} control epoch {cluster.epoch}"

    def _judge_replica(self, host: BrokerHost, replica: Replica) -> None:
        partition, leadership = replica.topic_partition, replica.leadership
        if replica.topic_id != ZERO_TOPIC_ID:
            known = self._topic_ids.setdefault(partition.topic, set())
            known.add(replica.topic_id)
            count = 1 + self.deletions[partition.topic]
            assert len(known) <= count, f"{host.name}: {partition.topic} has the ids {known}"
        if leadership is None:
            return
        epoch = (replica.topic_id, partition, replica.leader_epoch)
        first = self._leaders.setdefault(epoch, host.name)
        assert first == host.name, f"{first} and {host.name} lead {epoch}"
        # A new controller confirms the epoch of a leader that has restarted in the meantime. Such a
        # leader begins with the high watermark that it has stored, as after an election.
        here = (host.name, len(host.runs), *epoch)
        before = self._high_watermarks.get(here, 0)
        now = leadership.high_watermark
        assert before <= now <= replica.log.log_end_offset, f"{here}: {before}, {now}"
        self._high_watermarks[here] = now

    def _judge_checkpoints(self, host: BrokerHost) -> None:
        """Check that stored high watermarks never go back, of a topic that is never moved."""
        for directory in host.log_dirs:
            try:
                entries = read_entries(directory / HIGH_WATERMARK_CHECKPOINT)
            except (OSError, CorruptCheckpointError):
                continue
            key = (directory, host.disk.crash_count)
            stored = {number: int(at) for topic, number, at in entries if topic == OFFSETS_TOPIC}
            for number, least in self._stored.get(key, {}).items():
                now = stored.get(number, -1)
                assert least <= now, f"{directory} stores {now} of {number} after {least}"
            # A loss of power may cut a log to below the high watermark that was stored before.
            if stored != self._first_stored.setdefault(key, stored):
                self._stored[key] = stored

    def _judge_leader(self, led: Led) -> None:
        replica, leadership = led.replica, led.replica.leadership
        partition = replica.topic_partition
        promised = self._promised.get(partition.partition, 0)
        if partition.topic != self._topic or leadership is None:
            return
        about = f"{led.host.name} leads {partition} in epoch {leadership.leader_epoch}"
        end = replica.log.log_end_offset
        assert promised <= end, f"{about} up to {end}, promised were {promised}"
        # A new leader learns from its followers how far the records before its epoch are committed.
        if (now := leadership.high_watermark) >= leadership.epoch_start_offset:
            assert promised <= now, f"{about} with high watermark {now}, promised were {promised}"

    def _judge_followers(self, led: Led) -> None:
        """Check that every in-sync follower holds the records below the high watermark."""
        partition = led.replica.topic_partition
        for host in self._running():
            held = host.program._replicas.table.by_key.get(partition)
            if held is None or host.number not in led.state.isr:
                continue
            if held.leader_epoch == led.state.leader_epoch:
                least, end = led.replica.high_watermark, held.log.log_end_offset
                assert least <= end, f"{host.name} holds {partition} up to {end}, not to {least}"

    def _judge_groups(self, led: Led) -> None:
        topic, number = led.replica.topic_partition
        registry = led.host.program._groups.registry
        if topic != OFFSETS_TOPIC or number not in registry.active_partitions():
            return
        for group in registry.in_partition(number):
            for (group_id, partition), least in self._committed.items():
                if group_id == group.group_id:
                    held = group.offsets.get(partition)
                    now = -1 if held is None else held.offset
                    assert least <= now, f"{group_id} {partition}: committed {least}, then {now}"
            for partition, (committed, position) in group.offsets._committed.items():
                # A load reads records that a failover may still undo.
                if position < led.replica.high_watermark:
                    self._committed[group.group_id, partition] = committed.offset
            if group.state.value == "Stable":
                _judge_assignment(group)

    # Judgements at rest

    def _unrest(self) -> list[str]:
        """Return the reasons why the cluster is not at rest."""
        faults = []
        by_number = {host.number: host for host in self._running()}
        assignments, states = self._cluster.assignments(), self._cluster.partition_states()
        led_count = sum(1 for _ in self._led())
        if not led_count or led_count < len(states):
            faults.append(f"{led_count} partitions of {len(states)} are led")
        for partition, state in states.items():
            assigned = assignments[partition.topic].partitions[partition.partition]
            if assigned.adding or assigned.removing or set(state.isr) != set(assigned.replicas):
                faults.append(f"{partition}: {state} of {assigned}")
                continue
            replicas = [
                by_number[each].program._replicas.table.by_key.get(partition)
                for each in assigned.replicas
            ]
            ends = {each and (each.log.log_end_offset, each.high_watermark) for each in replicas}
            if len(ends) != 1 or ends == {None}:
                faults.append(f"{partition}: ends {ends}")
        if not any(host.program._member.controller.is_active for host in by_number.values()):
            faults.append("no controller")
        for host in by_number.values():
            memory = host.program._serving.server._network.memory
            if memory.reserved_bytes or memory.kept_bytes:
                faults.append(f"{host.name} holds memory of requests")
            if host.program._groups.registry.is_loading:
                faults.append(f"{host.name} loads groups")
            faults += _leftovers(host, assignments, self._topic)
        return faults

    def _compare(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        """Check that all replicas hold the same bytes below the high watermark."""
        by_number = {host.number: host for host in self._running()}
        replicas = [by_number[each].program._replicas.table.by_key[partition] for each in state.isr]
        if "compact" in replicas[0].log.config.cleanup_policy:
            return
        start = max(each.log.log_start_offset for each in replicas)
        contents = {_content(each, start) for each in replicas}
        assert len(contents) == 1, f"{partition}: the replicas differ"


def _leftovers(
    host: BrokerHost, assignments: Mapping[str, TopicAssignment], moved: str
) -> list[str]:
    """Return the directories and files of partitions that a broker should have deleted.

    A broker that returns after a reassignment without it keeps its replica of `moved` as a stray.
    """
    found = []
    for path in [each for log_dir in host.log_dirs for each in log_dir.iterdir() if each.is_dir()]:
        topic, _, number = path.name.rpartition("-")
        if number == DirectoryState.STRAY.value and topic.startswith(f"{moved}-"):
            continue
        of_topic = assignments[topic].partitions if topic in assignments else {}
        is_assigned = number.isdigit() and int(number) in of_topic
        if not is_assigned or host.number not in of_topic[int(number)].replicas:
            found.append(f"{path} is left")
        found += [f"{each} is left" for each in path.glob("*.deleted")]
    return found


def _judge_assignment(group: Any) -> None:
    """Check that each partition has one owner in the current generation."""
    owners: dict[tuple[str, int], str] = {}
    for member in group.members:
        for topic in decode_assignment(member.assignment).assigned_partitions:
            for number in topic.partitions:
                first = owners.setdefault((topic.topic, number), member.member_id)
                assert first == member.member_id, f"{topic.topic}-{number} has two owners: {owners}"


def _content(replica: Replica, start: Offset) -> bytes:
    """Return the batches from the one that holds `start` to the high watermark."""
    parts, offset = [], start
    while offset < replica.high_watermark:
        region = replica.log.read(
            offset, MIB, end_offset=replica.high_watermark, min_one_batch=True
        )
        parts.append(region.read())
        *_, (last, _) = iterate_batches(parts[-1])
        offset = Offset(last.last_offset + 1)
    return b"".join(parts)
