"""One simulated world from a seed: a cluster, its clients, its faults, and the judgement."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import ottla
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from logcheck.finding import Severity
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from storage.disk.layout import DirectoryState
from tests.simulation.world.cluster import BrokerHost, Cluster
from tests.simulation.world.disk import PowerLost
from tests.simulation.world.impostor import Impostor
from tests.simulation.world.judges import Judges
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.operators import (
    KEYED,
    KeyedWriter,
    Poisoner,
    ReplicaOperator,
    TopicOperator,
)
from tests.simulation.world.outside import replaced
from tests.simulation.world.rover import SINGLE, Creator, Rover
from tests.simulation.world.script import Script, draw_script
from tests.simulation.world.trouble import Trouble
from tests.simulation.world.workload import (
    PARTITIONS,
    TOPIC,
    Client,
    Members,
    Promises,
    Reader,
    Writer,
    judge,
    read_all,
)

T = TypeVar("T")
FAULTS_S: Final = 20.0
"""Virtual time with faults in a world, unless another one is given."""
MEMORY: Final = Path("/dev/shm")
RECOVERY_S: Final = 120.0
"""Virtual time after the last fault, within which everybody is served again."""
WATCH_S: Final = 0.5
MAX_COLLECTIONS: Final = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """The course of events in a world."""

    trace: int
    """Checksum of all times and numbers of steps: the same seed gives the same."""
    step_count: int
    virtual_s: float
    fault_counts: Counter[str]
    operation_counts: Counter[str]
    overlaps: Counter[tuple[str, str]]
    """Pairs of a fault and an operation that ran at the same time."""
    acknowledged_count: int
    failed_count: int
    read_count: int

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.fault_counts.items()))
        return (
            f"trace {self.trace:08x}; {self.virtual_s:.0f} s in {self.step_count} steps; "
            f"{self.operation_counts.total()} operations; "
            f"{self.acknowledged_count} records acknowledged, {self.failed_count} failed, "
            f"{self.read_count} read; {faults}"
        )


def run_world(seed: int, faults_s: float, *, has_operators: bool = False) -> Outcome:
    """Run the world of a seed with `faults_s` seconds of faults, and judge it.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    return run_script(draw_script(seed, faults_s, has_operators=has_operators))


def run_script(script: Script) -> Outcome:
    """Run the world of a script, and judge it.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    return in_world(script.seed, lambda loop, root: _live(loop, root, script))


def in_world(seed: int, live: Callable[[WorldLoop, Path], Coroutine[Any, Any, T]]) -> T:
    """Run `live` in a new world, whose hosts have their files below a given directory.

    Raises:
        AssertionError: a callback failed.
    """
    with unraisable_ignored():
        return _run(seed, live)


def _run(seed: int, live: Callable[[WorldLoop, Path], Coroutine[Any, Any, T]]) -> T:
    loop = WorldLoop(seed)
    errors: list[dict[str, Any]] = []

    def on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), PowerLost):
            errors.append(context)

    loop.set_exception_handler(on_error)
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        with replaced(loop), loop.events.followed():
            result = loop.run_until_complete(live(loop, root))
            assert errors == [], errors
            assert loop.events.bugs == [], loop.events.bugs
            return result
    except Exception as error:
        error.add_note(f"trace {loop.trace:08x} after {loop.time() - loop.begin_s:.3f} s")
        raise
    finally:
        _forget(loop)
        loop.files.end()
        shutil.rmtree(root)


async def _live(loop: WorldLoop, root: Path, script: Script) -> Outcome:
    cluster = Cluster(loop, root, script.broker_count)
    await cluster.boot()
    async with ottla.Admin(cluster.bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, cluster.replica_count)])
    promises, members = Promises(), Members(loop.chance)
    clients: list[Client] = [
        *(Writer(cluster, f"w{number}", promises) for number in (1, 2)),
        *(Reader(cluster, f"r{number}", promises, members) for number in (1, 2)),
    ]
    judges = Judges(cluster, TOPIC, promises, (SINGLE, KEYED))
    readers = clients[2:]
    judged: list[TopicOperator | KeyedWriter | Rover] = []
    if script.has_operators:
        judged += [
            TopicOperator(cluster, "o1", promises, judges),
            KeyedWriter(cluster, "k1", promises),
        ]
        mover = ReplicaOperator(
            cluster,
            "o2",
            promises,
            partitions=[*partitions_of(TOPIC), TopicPartition(KEYED, 0)],
            internal=[TopicPartition(OFFSETS_TOPIC, 0)],
            limited=[client.name for client in clients],
        )
        if not cluster.keeps_all_replicas:
            judged.append(Rover(cluster, "o3", promises))
        clients += [
            *judged,
            mover,
            Creator(cluster, "o4", promises),
            Poisoner(cluster, "p1", promises),
            Impostor(cluster, "i1", promises),
        ]
    for client in clients:
        client.begin()
    trouble = Trouble(cluster, readers)
    torment = loop.create_task(trouble.run(script.faults))
    end_s = loop.time() + script.faults_s
    while loop.time() < end_s:
        await asyncio.sleep(WATCH_S)
        check_alive(cluster, [*(each.task for each in clients), torment])
        judges.look()
    for client in clients:
        client.is_over = True
    async with asyncio.timeout(RECOVERY_S):
        await torment
        for client in clients:
            await client.task
        await judges.rest()
        judge(await read_all(cluster, promises), promises)
        for each in judged:
            await each.judge()
        for host in cluster.brokers:
            await host.stop()
    check_files(cluster.brokers)
    return outcome(loop, trouble, len(promises.written), promises.failed_count, len(promises.read))


def outcome(
    loop: WorldLoop, trouble: Trouble, acknowledged_count: int, failed_count: int, read_count: int
) -> Outcome:
    """Return the outcome of a world that kept its promises."""
    return Outcome(
        loop.trace,
        loop.step_count,
        loop.time() - loop.begin_s,
        trouble.counts,
        loop.overlaps.operation_counts,
        loop.overlaps.counts,
        acknowledged_count,
        failed_count,
        read_count,
    )


def partitions_of(topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic that the clients use."""
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def check_alive(cluster: Cluster, tasks: list[asyncio.Task[None]]) -> None:
    """Check that nobody has given up."""
    for task in tasks:
        if task.done():
            task.result()
    for host in cluster.brokers:
        if host.is_up and host.has_started:
            failed = host.program.failed
            assert not failed.done(), f"{host.name} gave up: {failed.result()}"


def check_files(hosts: list[BrokerHost]) -> None:
    """Check that `ottla logs verify --deep` finds nothing."""
    results = verify_directories(
        [path for host in hosts for path in host.log_dirs], VerifyOptions(with_records=True)
    )
    found = [
        str(finding)
        for result in results
        if not _may_be_damaged(result.directory, hosts)
        for finding in result.findings
        if finding.severity is not Severity.NOTE
    ]
    assert found == [], "\n".join(found)


def _may_be_damaged(partition: Path, hosts: list[BrokerHost]) -> bool:
    """Whether a directory is a stray, which nothing recovers until it is taken back."""
    return partition.name.endswith(f"-{DirectoryState.STRAY.value}") and any(
        host.disk.crash_count and partition.is_relative_to(host.root) for host in hosts
    )


def _forget(loop: WorldLoop) -> None:
    """Drop the unfinished tasks of dead processes."""
    with quiet_collection():
        loop.end_tasks()
        loop.close()


@contextmanager
def unraisable_ignored() -> Iterator[None]:
    """Ignore the errors of destructors, because dead processes leave open files and tasks."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def quiet_collection() -> Iterator[None]:
    """Collect unfinished tasks afterwards, whose `finally` clauses complain.

    If a world fails, its frames hold tasks until the exception is dropped.
    """
    with unraisable_ignored():
        try:
            yield
        finally:
            # A `finally` clause may revive its task, and with that all garbage of a collection.
            for _ in range(MAX_COLLECTIONS):
                if not gc.collect():
                    break
