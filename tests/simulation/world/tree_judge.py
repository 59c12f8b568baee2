"""Judges the coordinator's tree: answered transactions stay, and epochs only grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes import paths
from kafkawire.ids import TopicPartition
from kafkawire.sentinels import NO_LEADER
from tests.simulation.world.cluster import Cluster


class TreeJudge:
    """Compares the tree with its earlier states, and with the transactions that brokers know."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = 0
        """Last transaction that a broker knows of."""
        self._states: dict[tuple[object, TopicPartition], tuple[LeaderAndIsr, int]] = {}
        """Last state of each partition, and the transaction that wrote it."""
        self._lost: list[str] = []
        """Answered transactions that a restart has undone."""
        cluster.loop.events.listeners["state.recovered"] = self._on_recovered

    def look(self) -> None:
        """Judge the present tree.

        Raises:
            AssertionError: a promise of the coordinator or the controller is broken.
        """
        assert not self._lost, "\n".join(self._lost)
        self._judge_transactions()
        assignments, nodes = self._cluster.assignments(), self._cluster.nodes
        for partition, state in self._cluster.partition_states().items():
            assert state.isr, f"{partition}: no replica is in sync, so nobody may lead: {state}"
            assert state.leader in (NO_LEADER, *state.isr), f"{partition}: {state}"
            key = (assignments[partition.topic].topic_id, partition)
            before, _ = self._states.get(key, (state, 0))
            assert before.leader_epoch <= state.leader_epoch, f"{partition}: {before}, {state}"
            assert before.partition_epoch <= state.partition_epoch, (
                f"{partition}: {before}, {state}"
            )
            if before.leader != state.leader:
                assert before.leader_epoch < state.leader_epoch, f"{partition}: {before}, {state}"
            self._states[key] = state, nodes[paths.partition_state(partition)].mzxid

    def _judge_transactions(self) -> None:
        """Check that the coordinator has every transaction that a broker knows of."""
        for host in self._cluster.brokers:
            session = getattr(getattr(host.program, "_member", None), "session", None)
            if session is not None:
                self._seen = max(self._seen, session.client.session._last_zxid)
        last = self._cluster.last_transaction
        if last is None:
            return
        assert self._seen <= last, f"transaction {self._seen} of {last} was read"

    def _on_recovered(self, _host: str, event: Mapping[str, Any]) -> None:
        """Forget transactions that a loss of power has undone: they were not synced.

        Nobody could read them. The next ones get the same numbers.
        """
        last = int(event["zxid"])
        if self._seen > last:
            self._lost.append(f"transaction {self._seen} was read, and {last} is the last one")
        self._states = {key: each for key, each in self._states.items() if each[1] <= last}
