"""Transactions in a simulated cluster with faults: list-append, and the judgement.

Producers append unique values to several partitions in transactions, and read them as committed
records. At rest no transaction is open, and no reader has seen a part of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from kafkawire.transaction_records import TransactionStatus
from tests.harness.transaction_checker import violations
from tests.harness.transaction_history import Outcome
from tests.harness.transaction_workload import Workload
from tests.simulation.world.cluster import Cluster
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.script import Script, draw_script
from tests.simulation.world.trouble import Trouble
from tests.simulation.world.workload import PARTITIONS, TOPIC, Client, Promises
from tests.simulation.world.world import (
    BROKERS,
    RECOVERY_S,
    WATCH_S,
    check_alive,
    check_files,
    in_world,
)

APPENDERS: Final = 3
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


def run_transactions(seed: int, faults_s: float) -> Counter[Outcome]:
    """Run the transactional world of a seed, and judge it; return the outcomes.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    script = draw_script(seed, faults_s, has_operators=False)
    return in_world(seed, lambda loop, root: _live(loop, root, script))


async def _live(loop: WorldLoop, root: Path, script: Script) -> Counter[Outcome]:
    cluster = Cluster(loop, root, BROKERS)
    await cluster.boot()
    async with ottla.Admin(cluster.bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, BROKERS)])
    keys = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    workload = Workload(cluster.bootstrap, keys, seed=script.seed, pause_s=PAUSE_S)
    clients = [Appender(cluster, f"a{number}", workload) for number in range(APPENDERS)]
    for client in clients:
        client.begin()
    trouble = Trouble(cluster, clients)
    torment = loop.create_task(trouble.run(script.faults))
    end_s = loop.time() + script.faults_s
    while loop.time() < end_s:
        await asyncio.sleep(WATCH_S)
        check_alive(cluster, [*(each.task for each in clients), torment])
    workload.stop()
    async with asyncio.timeout(RECOVERY_S):
        await torment
        for client in clients:
            await client.task
        await workload.finish()
        await _until_at_rest(cluster)
        for host in cluster.brokers:
            await host.stop()
    found = violations(workload.history)
    assert found == [], "\n".join(map(str, found))
    check_files(cluster.brokers)
    return Counter(each.outcome for each in workload.history.transactions)


async def _until_at_rest(cluster: Cluster) -> None:
    """Wait until no coordinator has a transaction that is open, or that lacks markers."""
    while any(  # noqa: ASYNC110 - polls the state of the brokers
        each.status not in AT_REST or each.has_pending_change
        for host in cluster.brokers
        for each in host.program._coordinators.transactions.registry
    ):
        await asyncio.sleep(WATCH_S)
