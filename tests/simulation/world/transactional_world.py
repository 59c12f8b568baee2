"""Transactions in a simulated cluster with faults: list-append, copies, and the judgement.

Producers append unique values to several partitions in transactions, and read them as committed
records. Copiers, a group of consumers, copy these records to another topic, and commit their
offsets in the same transactions. At rest no transaction is open, no reader has seen a part of one,
and each committed record was copied once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafkawire.transaction_records import TransactionStatus
from tests.harness.copier import Copier
from tests.harness.transaction_checker import violations
from tests.harness.transaction_history import Outcome as TransactionOutcome
from tests.harness.transaction_history import TransactionHistory
from tests.harness.transaction_workload import Workload
from tests.simulation.world.cluster import SESSION_TIMEOUT_MS, Cluster
from tests.simulation.world.judges import Judges
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.operators import ReplicaOperator
from tests.simulation.world.scratch_transactions import ScratchTransactions
from tests.simulation.world.script import Script, draw_script
from tests.simulation.world.trouble import Trouble
from tests.simulation.world.workload import PARTITIONS, TOPIC, Client, Promises, read_topic
from tests.simulation.world.world import (
    RECOVERY_S,
    WATCH_S,
    Outcome,
    check_alive,
    check_files,
    in_world,
    outcome,
    partitions_of,
)

APPENDERS: Final = 3
COPIERS: Final = 2
COPIED: Final = "copied"
PAUSE_S: Final = 0.6
AT_REST: Final = {
    TransactionStatus.EMPTY,
    TransactionStatus.COMPLETE_ABORT,
    TransactionStatus.COMPLETE_COMMIT,
}


class Appender(Client):
    """A program that appends in transactions."""

    def __init__(self, cluster: Cluster, name: str, workload: Workload) -> None:
        super().__init__(cluster, name, Promises())
        self._workload = workload

    async def _work(self) -> None:
        await self._workload.process(self.name)


class CopyingClient(Client):
    """A program that copies committed records in transactions."""

    async def _work(self) -> None:
        copier = Copier(
            self.cluster.bootstrap,
            self.name,
            chance=Random(self.loop.chance.random()),
            report=lambda _line: None,
            is_over=lambda: self.is_over,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        await copier.run(TOPIC, COPIED)


def run_transactions(seed: int, faults_s: float, *, has_operators: bool = False) -> Outcome:
    """Run the transactional world of a seed, and judge it.

    The world ends only after a transaction was committed, if need be after the last fault.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    return run_transactional_script(draw_script(seed, faults_s, has_operators=has_operators))


def run_transactional_script(script: Script) -> Outcome:
    """Run the transactional world of a script, and judge it.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    return in_world(script.seed, lambda loop, root: _live(loop, root, script))


async def _live(loop: WorldLoop, root: Path, script: Script) -> Outcome:
    cluster = Cluster(loop, root, script.broker_count)
    await cluster.boot()
    async with ottla.Admin(cluster.bootstrap) as admin:
        topics = [
            ottla.NewTopic(name, PARTITIONS, cluster.replica_count) for name in (TOPIC, COPIED)
        ]
        await admin.create_topics(topics)
    workload = Workload(cluster.bootstrap, partitions_of(TOPIC), seed=script.seed, pause_s=PAUSE_S)
    promises = Promises()
    judges = Judges(cluster, TOPIC, promises, (COPIED,))
    appenders = [Appender(cluster, f"a{number}", workload) for number in range(APPENDERS)]
    copiers = [CopyingClient(cluster, f"c{number}", promises) for number in range(COPIERS)]
    scratch: list[ScratchTransactions] = []
    operators: list[Client] = []
    if script.has_operators:
        scratch.append(ScratchTransactions(cluster, "s1", promises, judges))
        operators += [_operator(cluster, promises), *scratch]
    clients: list[Client] = [*appenders, *copiers, *operators]
    for client in clients:
        client.begin()
    trouble = Trouble(cluster, [*appenders, *copiers])
    torment = loop.create_task(trouble.run(script.faults))
    end_s = loop.time() + script.faults_s
    async with asyncio.timeout(script.faults_s + RECOVERY_S):
        # The faults may keep the cluster away for the whole time.
        while loop.time() < end_s or not _has_committed(workload.history):
            await asyncio.sleep(WATCH_S)
            check_alive(cluster, [*(each.task for each in clients), torment])
            judges.look()
    workload.stop()
    async with asyncio.timeout(RECOVERY_S):
        await torment
        await _end([*appenders, *operators])
        await workload.finish()
        await _until_copied(cluster, workload.history)
        await _end(copiers)
        for each in scratch:
            await each.judge()
        await _until_at_rest(cluster)
        await judges.rest()
        for host in cluster.brokers:
            await host.stop()
    found = violations(workload.history)
    assert found == [], "\n".join(map(str, found))
    check_files(cluster.brokers)
    outcomes = Counter(each.outcome for each in workload.history.transactions)
    committed = outcomes.pop(TransactionOutcome.COMMITTED, 0)
    read_count = sum(map(len, workload.history.final.values()))
    return outcome(loop, trouble, committed, outcomes.total(), read_count)


def _operator(cluster: Cluster, promises: Promises) -> ReplicaOperator:
    return ReplicaOperator(
        cluster,
        "o1",
        promises,
        partitions=[*partitions_of(TOPIC), *partitions_of(COPIED)],
        internal=[TopicPartition(OFFSETS_TOPIC, 0), TopicPartition(TRANSACTIONS_TOPIC, 0)],
    )


def _has_committed(history: TransactionHistory) -> bool:
    return any(each.outcome is TransactionOutcome.COMMITTED for each in history.transactions)


async def _end(clients: Sequence[Client]) -> None:
    for client in clients:
        client.is_over = True
    for client in clients:
        await client.task


async def _until_copied(cluster: Cluster, history: TransactionHistory) -> None:
    """Wait until each committed record was copied, in order.

    Raises:
        AssertionError: the copies differ from the records.
    """
    wanted = {key.partition: [read.value for read in reads] for key, reads in history.final.items()}
    while True:
        copied: dict[int, list[str]] = {number: [] for number in wanted}
        for record in await read_topic(cluster, COPIED, "read_committed"):
            copied[record.partition].append((record.value or b"").decode())
        for number, values in copied.items():
            expected = wanted[number][: len(values)]
            assert values == expected, f"{COPIED}-{number}: {values}, not {expected}"
        if copied == wanted:
            return
        await asyncio.sleep(WATCH_S)


async def _until_at_rest(cluster: Cluster) -> None:
    """Wait until no coordinator has a transaction that is open, or that lacks markers."""
    while any(  # noqa: ASYNC110 - polls the state of the brokers
        each.status not in AT_REST or each.has_pending_change
        for host in cluster.brokers
        for each in host.program._coordinators.transactions.registry
    ):
        await asyncio.sleep(WATCH_S)
