"""A list-append workload over transactions on three brokers of which one is killed at a time."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from kafkawire.ids import TopicPartition
from ottla import Admin, NewTopic
from tests.harness.cluster import ClusterProcesses
from tests.harness.transaction_checker import violations
from tests.harness.transaction_history import Outcome
from tests.harness.transaction_workload import Workload
from tests.integration.coordination.process import wait_until

PARTITIONS = 3
OVERRIDES = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "min.insync.replicas": "2",
}
PROCESSES = 4
PATIENCE_S = 180.0
ROUND = 40
"""Number of transactions before and after each kill."""


@pytest.mark.soak
async def test_transactions_are_atomic_though_brokers_are_killed(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("appended", PARTITIONS, 3)])
        keys = [TopicPartition("appended", number) for number in range(PARTITIONS)]
        workload = Workload(cluster.bootstrap, keys, seed=time.time_ns())
        running = asyncio.ensure_future(workload.run(PROCESSES))
        for killed in (1, 2, 3):
            await more(workload)
            await asyncio.to_thread(cluster.kill, killed)
            await more(workload)
            await asyncio.to_thread(cluster.start_brokers, killed)
        await more(workload)
        workload.stop()
        await running
        await workload.finish()
    outcomes = Counter(each.outcome for each in workload.history.transactions)
    assert outcomes[Outcome.COMMITTED] > ROUND
    assert outcomes[Outcome.ABORTED] > 0
    assert [str(each) for each in violations(workload.history)] == [], workload.seed


async def more(workload: Workload) -> None:
    """Wait for another round of transactions."""
    wanted = len(workload.history.transactions) + ROUND
    transactions = workload.history.transactions
    await asyncio.to_thread(wait_until, lambda: len(transactions) >= wanted, PATIENCE_S)
