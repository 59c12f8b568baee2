"""Runs a scenario under load, then proves that no record was lost. Composition.

Used by the short rounds of every day, by the long ones, and with foreign coordinators.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.admin_model import NewTopic, OffsetSpec
from tests.harness.checker import Logs, check, duplicate_count
from tests.harness.cluster import ClusterProcesses
from tests.harness.history import History
from tests.harness.observer import Observer
from tests.harness.replica_files import committed_batches, differences
from tests.harness.sequences import sequence_faults
from tests.harness.workload import (
    ConfluentProducer,
    OurProducer,
    Producing,
    Reader,
    read_logs,
)

PARTITION_COUNT: Final = 3
TOPICS: Final = {"safe": 2, "lenient": 1}
"""Topics under load, with their min.insync.replicas."""
REPLICATION_FACTOR: Final = 3
HEAL_TIMEOUT_S: Final = 60.0
LOOK_INTERVAL_S: Final = 0.05


@dataclass(slots=True)
class Outcome:
    """Result of a run, for the test's report."""

    acknowledged_count: int = 0
    failed: list[str] = field(default_factory=list)
    duplicate_count: int = 0
    read_count: int = 0
    anomalies: list[str] = field(default_factory=list)

    def require_proof(self) -> None:
        """Assert that no record was lost, and that the run could have lost one."""
        assert not self.anomalies, "\n".join(self.anomalies)
        assert self.acknowledged_count > 0, "no record was acknowledged, so the run proves nothing"
        assert self.read_count > 0, "no record was read, so the run proves nothing"

    def __str__(self) -> str:
        return (
            f"{self.acknowledged_count:,} acknowledged, {len(self.failed)} failed, "
            f"{self.duplicate_count} duplicates, {self.read_count:,} read during the run, "
            f"{len(self.anomalies)} anomalies"
        )


Scenario = Callable[[ClusterProcesses, Observer], Awaitable[None]]
"""Faults and operations on the cluster, while producers and a reader run."""


Load = Callable[[str, History, Sequence[TopicPartition]], Sequence[Producing]]
"""Returns the producers of a run, given the bootstrap servers, the history and the partitions."""


def three_producers(
    bootstrap: str, history: History, partitions: Sequence[TopicPartition]
) -> Sequence[Producing]:
    """Return one producer of Ottla's client, and librdkafka's with and without idempotence."""
    return [
        OurProducer(bootstrap, history, partitions),
        ConfluentProducer(bootstrap, history, partitions, is_idempotent=True),
        ConfluentProducer(bootstrap, history, partitions, is_idempotent=False),
    ]


async def prove(
    cluster: ClusterProcesses,
    scenario: Scenario,
    load: Load = three_producers,
) -> Outcome:
    """Run `scenario` under load, and return the outcome after all processes have recovered.

    Before that, every producer gets a response for each partition. If a leader changes before the
    first response, librdkafka may send its second batch to the new leader before it repeats its
    first. A leader that does not know the producer yet accepts any sequence, as Kafka's do, and
    librdkafka then reports the first batch as written.

    Raises:
        AssertionError: the cluster did not recover, or a client failed otherwise.
    """
    partitions = await _create_topics(
        cluster.bootstrap, min(REPLICATION_FACTOR, len(cluster.numbers))
    )
    history, outcome = History(), Outcome()
    async with Observer(cluster.connect) as observer:
        await observer.wait_until_whole(len(cluster.numbers), HEAL_TIMEOUT_S)
        with contextlib.ExitStack() as running:
            running.enter_context(Reader(cluster.bootstrap, history, partitions))
            names: list[str] = []
            for worker in load(cluster.bootstrap, history, partitions):
                running.enter_context(worker)
                names += worker.names
            await _wait_until_all_took_part(history, partitions, names)
            await scenario(cluster, observer)
        await observer.wait_until_whole(len(cluster.numbers), HEAL_TIMEOUT_S)
        replicas = {where: each.replicas for where, each in (await observer.partitions()).items()}
        ends = await _end_offsets(cluster.bootstrap, partitions)
    logs = await asyncio.to_thread(read_logs, cluster.bootstrap, ends)
    for broker in cluster.running:
        cluster.stop(broker)
    _judge(outcome, history, logs)
    for where, end in ends.items():
        directories = {number: cluster.log_directory(number) for number in replicas[where]}
        outcome.anomalies += differences(directories, where, end)
        leading = committed_batches(directories[replicas[where][0]], where, end)
        given_up = sum(item.partition == where for item, _ in history.failed)
        faults = sequence_faults(leading, given_up)
        outcome.anomalies += [f"{where}: {fault}" for fault in faults]
    sys.stderr.write(f"{outcome}\n")
    return outcome


async def _wait_until_all_took_part(
    history: History, partitions: Sequence[TopicPartition], names: Sequence[str]
) -> None:
    """Wait until each producer has had a response for each partition, and the reader a record."""
    known: set[tuple[str, TopicPartition]] = set()
    async with asyncio.timeout(HEAL_TIMEOUT_S):
        while len(known) < len(names) * len(partitions) or not any(history.read.values()):
            await asyncio.sleep(LOOK_INTERVAL_S)
            # A copy, as clients' threads keep appending to it.
            known = {(each.producer, each.partition) for each in list(history.acknowledged)}


def _judge(outcome: Outcome, history: History, logs: Logs) -> None:
    outcome.acknowledged_count = len(history.acknowledged)
    outcome.failed = [f"{item}: {reason}" for item, reason in history.failed]
    outcome.duplicate_count = duplicate_count(logs)
    outcome.read_count = sum(map(len, history.read.values()))
    outcome.anomalies = [str(anomaly) for anomaly in check(history, logs)]


async def _create_topics(bootstrap: str, replication_factor: int) -> list[TopicPartition]:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics(
            NewTopic(
                name,
                PARTITION_COUNT,
                replication_factor,
                {"min.insync.replicas": str(min(least, replication_factor))},
            )
            for name, least in TOPICS.items()
        )
    return [TopicPartition(name, number) for name in TOPICS for number in range(PARTITION_COUNT)]


async def _end_offsets(
    bootstrap: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    async with ottla.Admin(bootstrap) as admin:
        places = await admin.list_offsets({each: int(OffsetSpec.LATEST) for each in partitions})
    return {where: place.offset for where, place in places.items()}
