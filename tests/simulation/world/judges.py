"""Judges of a running cluster: they compare the states of its nodes with the promises to clients.

They read the objects of the nodes, and the tree of the coordinator, between two callbacks. The
coordinator's tree says which leadership of a partition is the current one; a leader that does not
know of its successor yet may lack later records.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.replication.replica import Replica
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes.topic import TopicAssignment
from kafkawire.consumer_protocol import decode_assignment
from kafkawire.ids import ZERO_TOPIC_ID, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from storage.disk.layout import PARTITION_METADATA, DirectoryState
from storage.log.partition_metadata import read_topic_id
from tests.simulation.world.cluster import BrokerHost, Cluster
from tests.simulation.world.replica_comparison import compare
from tests.simulation.world.stored_judge import StoredJudge
from tests.simulation.world.tree_judge import TreeJudge
from tests.simulation.world.workload import Promises

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

    def __init__(
        self, cluster: Cluster, topic: str, promises: Promises, moved: Sequence[str] = ()
    ) -> None:
        """Expect every leader of `topic` to hold the records in `promises`.

        The partitions of `topic` and of the `moved` topics may move from broker to broker.
        """
        self.deletions: Counter[str] = Counter()
        """Deletions that were requested, by topic. A topic has one id between two of them."""
        self._cluster = cluster
        self._topic = topic
        self._moved = (topic, *moved)
        self._promised = promises.ends
        promises.on_offset = self._on_offset
        self._violations: list[str] = []
        self._leaders: dict[tuple[object, ...], str] = {}
        self._controllers: dict[int, str] = {}
        self._obeyed: dict[str, tuple[object, int]] = {}
        self._broker_epochs: dict[str, tuple[object, int]] = {}
        self._high_watermarks: dict[tuple[object, ...], int] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._ends_at_commit: dict[tuple[object, ...], int] = {}
        """The end of the log when a commit was first seen; a marker, if it needs one, is before."""
        self._topic_ids: dict[str, list[object]] = {}
        """The ids that each topic has had, in their order."""
        self._leader_epochs: dict[tuple[object, ...], int] = {}
        self._tree = TreeJudge(cluster)
        self._stored = StoredJudge()
        cluster.loop.events.listeners["log.truncated"] = self._on_truncated

    def look(self) -> None:
        """Judge the present state, and the events since the last look."""
        events = self._cluster.loop.events
        assert not events.bugs, "\n".join(events.bugs)
        assert not self._violations, "\n".join(self._violations)
        self._tree.look()
        for host in self._running():
            self._judge_epochs(host)
            self._stored.look(host)
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
        by_number = {host.number: host for host in self._running()}
        for partition, state in self._cluster.partition_states().items():
            compare(
                [by_number[each].program._replicas.table.by_key[partition] for each in state.isr]
            )

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
        obeyed = self._obeyed.get(host.name, (node, 0))
        now = node._fence.controller_epoch
        least = obeyed[1] if node is obeyed[0] else 0
        assert least <= now, f"{host.name} obeys controller epoch {now} after {least}"
        self._obeyed[host.name] = (node, now)
        cluster = node._member.controller._controller._planner.cluster
        if cluster is not None:
            first = self._controllers.setdefault(cluster.epoch, host.name)
            assert first == host.name, f"{first} and {host.name} control epoch {cluster.epoch}"

    def _judge_replica(self, host: BrokerHost, replica: Replica) -> None:
        partition, leadership = replica.topic_partition, replica.leadership
        if replica.topic_id != ZERO_TOPIC_ID:
            known = self._topic_ids.setdefault(partition.topic, [])
            if replica.topic_id not in known:
                known.append(replica.topic_id)
            count = 1 + self.deletions[partition.topic]
            assert len(known) <= count, f"{host.name}: {partition.topic} has the ids {known}"
        run = (host.name, len(host.runs), replica.topic_id, partition)
        least_epoch = self._leader_epochs.get(run, -1)
        now_epoch = replica.leader_epoch
        assert least_epoch <= now_epoch, f"{run} is in epoch {now_epoch} after {least_epoch}"
        self._leader_epochs[run] = now_epoch
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

    def _on_truncated(self, name: str, event: Mapping[str, Any]) -> None:
        """Check that a member of an in-sync set truncates nothing that is committed."""
        topic, _, number = str(event["partition"]).rpartition("-")
        partition, end = TopicPartition(topic, int(number)), int(event["offset"])
        state = self._cluster.partition_states().get(partition)
        if state is None or name not in {f"b{each}" for each in state.isr}:
            return
        led = [each for each in self._led() if each.replica.topic_partition == partition]
        committed = [int(each.replica.high_watermark) for each in led]
        if topic == self._topic:
            committed.append(self._promised.get(partition.partition, 0))
        if end < max(committed, default=0):
            self._violations.append(f"{name} truncates {partition} to {end} of {committed}")

    def _on_offset(self, partition: TopicPartition, offset: int) -> None:
        """Check that an acknowledged commit is replicated: it survives the group coordinator."""
        for led in self._led():
            for group in self._groups(led):
                committed, position = group.offsets._committed.get(partition, (None, 0))
                end = led.replica.high_watermark
                if committed is not None and committed.offset >= offset and position >= end:
                    self._violations.append(
                        f"the commit of {partition}: {offset} is not replicated"
                    )

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

    def _groups(self, led: Led) -> Sequence[Any]:
        """Return the groups of a partition of committed offsets; none of other partitions."""
        topic, number = led.replica.topic_partition
        registry = led.host.program._coordinators.groups.registry
        if topic != OFFSETS_TOPIC or number not in registry.leaderships.active_partitions():
            return ()
        return registry.in_partition(number)  # type: ignore[no-any-return]

    def _judge_groups(self, led: Led) -> None:
        for group in self._groups(led):
            for (group_id, partition), least in self._committed.items():
                if group_id == group.group_id:
                    held = group.offsets.get(partition)
                    now = -1 if held is None else held.offset
                    assert least <= now, f"{group_id} {partition}: committed {least}, then {now}"
            for partition, (committed, position) in group.offsets._committed.items():
                # A load reads records that a failover may still undo: the commit, or the marker of
                # its transaction, which comes later in the log.
                run = (led.host.name, len(led.host.runs), led.replica.leader_epoch)
                here = (*run, group.group_id, partition, position)
                end = self._ends_at_commit.setdefault(here, led.replica.log.log_end_offset)
                if end <= led.replica.high_watermark:
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
            if host.program._coordinators.groups.registry.leaderships.is_loading:
                faults.append(f"{host.name} loads groups")
            faults += _outdated(host, by_number, states)
            faults += _leftovers(host, assignments, self._topic_ids, self._moved)
        return faults


def _outdated(
    host: BrokerHost, brokers: Mapping[int, object], states: Mapping[TopicPartition, LeaderAndIsr]
) -> list[str]:
    """Return the differences between a broker's metadata and the cluster."""
    image = host.program._metadata.image
    found = []
    if image.brokers.keys() != brokers.keys():
        found.append(f"{host.name} knows the brokers {sorted(image.brokers)}")
    for partition, state in states.items():
        known = image.partition(partition)
        if known is None or known.leader_and_isr[:2] != state[:2]:
            found.append(f"{host.name} knows {known} of {partition}: {state}")
    return found


def _leftovers(
    host: BrokerHost,
    assignments: Mapping[str, TopicAssignment],
    topic_ids: Mapping[str, Sequence[object]],
    moved: Sequence[str],
) -> list[str]:
    """Return the directories and files of partitions that a broker should have deleted.

    A broker that returns after a reassignment without it keeps its replica as a stray, which
    the `moved` topics may have. So it does with the replica of a former topic of that name, if
    its deletion was lost with the power, or the log dir was offline until the next topic came.
    """
    found = []
    for path in [each for log_dir in host.log_dirs for each in log_dir.iterdir() if each.is_dir()]:
        topic, _, number = path.name.rpartition("-")
        if number == DirectoryState.STRAY.value:
            name = topic.rpartition("-")[0]
            own = read_topic_id(path / PARTITION_METADATA)
            if name in assignments:
                is_former = assignments[name].topic_id != own
            else:
                is_former = own in topic_ids.get(name, ())[:-1]
            if is_former or name in moved:
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
