"""Runs rounds of trouble under load, then proves that nothing was lost. Composition.

Used by the quick rounds of every day, by the long ones, and on foreign coordinators.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.admin_model import NewTopic, OffsetSpec
from tests.harness.checker import Logs, check, duplicate_count
from tests.harness.cluster import ClusterProcesses
from tests.harness.history import History
from tests.harness.nemesis import Round, Trouble
from tests.harness.observer import Observer
from tests.harness.replica_files import differences
from tests.harness.workload import ConfluentProducer, OurProducer, Reader, read_logs

PARTITION_COUNT: Final = 3
TOPICS: Final = {"safe": "2", "lenient": "1"}
"""Topics under load, with their min.insync.replicas."""
HEAL_TIMEOUT_S: Final = 60.0


@dataclass(slots=True)
class Outcome:
    """What a run proved, for the test's report."""

    acknowledged_count: int = 0
    failed_count: int = 0
    duplicate_count: int = 0
    read_count: int = 0
    controllers: list[int] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)


async def prove(
    cluster: ClusterProcesses,
    rounds: Sequence[Round],
    *,
    kill_coordinator: Callable[[], None] | None = None,
) -> Outcome:
    """Play `rounds` under load, and return what was found when all is quiet again.

    Raises:
        AssertionError: the cluster did not become whole again, or a client failed otherwise.
    """
    partitions = await _create_topics(cluster.bootstrap)
    history, outcome = History(), Outcome()
    async with Observer(cluster.connect) as observer:
        await observer.wait_until_whole(len(cluster.numbers), HEAL_TIMEOUT_S)
        with (
            Reader(cluster.bootstrap, history, partitions),
            OurProducer(cluster.bootstrap, history, partitions),
            ConfluentProducer(cluster.bootstrap, history, partitions),
        ):
            nemesis = Nemesis(cluster, observer, kill_coordinator or cluster.restart_coordinator)
            for number, each in enumerate(rounds):
                sys.stderr.write(f"round {number}: {each}\n")
                await nemesis.play(each)
                outcome.controllers.append(await observer.wait_for_controller())
            await asyncio.to_thread(nemesis.heal)
        await observer.wait_until_whole(len(cluster.numbers), HEAL_TIMEOUT_S)
        ends = await _end_offsets(cluster.bootstrap, partitions)
    logs = await asyncio.to_thread(read_logs, cluster.bootstrap, ends)
    for broker in cluster.running:
        cluster.stop(broker)
    _judge(outcome, history, logs)
    for where, end in ends.items():
        directories = {number: cluster.log_directory(number) for number in cluster.numbers}
        outcome.anomalies += differences(directories, where, end)
    return outcome


def _judge(outcome: Outcome, history: History, logs: Logs) -> None:
    outcome.acknowledged_count = len(history.acknowledged)
    outcome.failed_count = len(history.failed)
    outcome.duplicate_count = duplicate_count(logs)
    outcome.read_count = sum(map(len, history.read.values()))
    outcome.anomalies = [str(anomaly) for anomaly in check(history, logs)]


async def _create_topics(bootstrap: str) -> list[TopicPartition]:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics(
            NewTopic(name, PARTITION_COUNT, 3, {"min.insync.replicas": least})
            for name, least in TOPICS.items()
        )
    return [TopicPartition(name, number) for name in TOPICS for number in range(PARTITION_COUNT)]


async def _end_offsets(
    bootstrap: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    async with ottla.Admin(bootstrap) as admin:
        places = await admin.list_offsets({each: int(OffsetSpec.LATEST) for each in partitions})
    return {where: place.offset for where, place in places.items()}


class Nemesis:
    """Carries out rounds on a cluster."""

    def __init__(
        self, cluster: ClusterProcesses, observer: Observer, kill_coordinator: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._kill_coordinator = kill_coordinator

    async def play(self, this: Round) -> None:
        """Let the trouble begin, last, and end; then heal, if the round says so."""
        duration_s = this.duration_ms / 1000
        controller = await self._observer.wait_for_controller()
        victims = self._victims(this, controller)
        match this.trouble:
            case Trouble.KILL_BROKER | Trouble.KILL_CONTROLLER | Trouble.KILL_TWO:
                for victim in victims:
                    self._cluster.kill(victim)
            case Trouble.PAUSE_BROKER | Trouble.PAUSE_CONTROLLER:
                for victim in victims:
                    self._cluster.pause(victim)
            case Trouble.STOP_BROKER | Trouble.STOP_CONTROLLER:
                for victim in victims:
                    code = await asyncio.to_thread(self._cluster.stop, victim)
                    assert code == 0, f"broker {victim} stopped with exit code {code}"
            case Trouble.KILL_COORDINATOR:
                await asyncio.to_thread(self._kill_coordinator)
        # How long the trouble lasts is the seed's choice, not a condition to wait for.
        await asyncio.sleep(duration_s)
        await asyncio.to_thread(self.heal)
        if this.heals:
            await self._observer.wait_until_whole(len(self._cluster.numbers), HEAL_TIMEOUT_S)

    def heal(self) -> None:
        """Let everybody run again."""
        for number in [*self._cluster.paused]:
            self._cluster.resume(number)
        if down := set(self._cluster.numbers) - set(self._cluster.running):
            self._cluster.start_brokers(*sorted(down))

    def _victims(self, this: Round, controller: int) -> list[int]:
        running = self._cluster.running
        if this.trouble in (
            Trouble.KILL_CONTROLLER,
            Trouble.PAUSE_CONTROLLER,
            Trouble.STOP_CONTROLLER,
        ):
            return [controller] if controller in running else running[:1]
        first = this.dice % len(running)
        count = 2 if this.trouble is Trouble.KILL_TWO else 1
        return [running[(first + step) % len(running)] for step in range(count)]
