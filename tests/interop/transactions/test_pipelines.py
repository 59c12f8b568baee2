"""Read-process-write pipelines of four kinds of clients while any process is killed or paused.

Each input is in the output exactly once and in order, and no transaction hangs. A few rounds run
every day, many with `make soak`; OTTLA_ROUNDS and OTTLA_SEED change their number and seed.
"""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from logcheck.rule import Rules
from ottla import Admin, Consumer, NewTopic
from ottla.client.errors import OttlaError
from ottla.client.offset import CommittedOffset
from tests.analytics.histories.verdicts import alarms_in
from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer
from tests.harness.replica_files import differences
from tests.harness.transaction_checker import violations
from tests.harness.transaction_workload import Workload
from tests.interop.clients.committed_records import committed_values
from tests.interop.kafka_broker import kafka_jars_or_skip
from tests.interop.transactions.outages import Outage, Role, rounds
from tests.interop.transactions.pipeline_nemesis import Nemesis
from tests.interop.transactions.pipelines import (
    KINDS,
    PARTITIONS,
    Pipelines,
    partitions_of,
    sources,
    target_of,
)

FEW, MANY = len(Role) * len(Outage), 100
BETWEEN_CHECKS = 60
SETTLE_S = 120.0
"""Far more than sessions, time limits of transactions and back-offs of clients together."""
LOOK_INTERVAL_S = 0.5
UNKNOWN = TopicPartition("?", 0)
COMMAND_S = 60.0
APPENDED = "appended"
APPENDING = 2
PAUSE_S = 2.0
OVERRIDES = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}
ENDED = {"Empty", "CompleteCommit", "CompleteAbort"}
"""States of transactional ids without an open transaction."""


def test_a_seed_repeats_its_rounds_and_draws_every_outage_of_every_role() -> None:
    assert rounds(7, MANY) == rounds(7, MANY) != rounds(8, MANY)
    drawn = {(each.role, each.outage) for each in rounds(7, FEW)}
    assert drawn == {(role, outage) for role in Role for outage in Outage}


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_each_input_is_processed_once_over_kills_and_pauses(
    tmp_path: Path, count: int
) -> None:
    kafka_jars_or_skip()
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    count = int(os.environ.get("OTTLA_ROUNDS", count))
    sys.stderr.write(f"OTTLA_SEED={seed} OTTLA_ROUNDS={count}\n")
    drawn = rounds(seed, count)
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        await create_topics(cluster.bootstrap)
        workload = Workload(cluster.bootstrap, partitions_of([APPENDED]), seed, PAUSE_S)
        appending = asyncio.ensure_future(workload.run(APPENDING))
        async with Observer(cluster.connect) as observer:
            with await asyncio.to_thread(Pipelines, cluster.bootstrap, tmp_path) as pipelines:
                nemesis = Nemesis(cluster, observer, pipelines, tmp_path / "rounds.log")
                judge = Judge(cluster.bootstrap, pipelines)
                for first in range(0, count, BETWEEN_CHECKS):
                    pipelines.feeder.resume()
                    await nemesis.play(first, drawn[first : first + BETWEEN_CHECKS])
                    await asyncio.to_thread(pipelines.feeder.pause)
                    await judge.check()
                for line in pipelines.report():
                    sys.stderr.write(f"{line}\n")
                await judge.require_proof(count)
            workload.stop()
            await appending
            await workload.finish()
            await observer.wait_until_whole(len(cluster.numbers), SETTLE_S)
            await judge.require_no_open_transactions()
        anomalies = [str(each) for each in violations(workload.history)]
        anomalies += await faults_in_logs(cluster)
    sys.stderr.write(
        f"{count} rounds, {judge.record_count} records, longest settling "
        f"{judge.longest_settling_s:.1f} s, {len(workload.history.transactions)} appending "
        f"transactions\n{nemesis.counts}\n"
    )
    assert anomalies == [], seed
    assert len(workload.history.transactions) > count / 10


async def create_topics(bootstrap: str) -> None:
    names = [*sources(), *map(target_of, sources()), APPENDED]
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names])
        # A member that finds no offset must not take that for a new group: see `run_aiokafka`.
        for source in sources():
            await admin.alter_group_offsets(source, dict.fromkeys(partitions_of([source]), 0))


async def faults_in_logs(cluster: ClusterProcesses) -> list[str]:
    """Stop all brokers, compare the replicas of the outputs, and run all audits on the logs.

    The audits compare transactions, markers and committed offsets over all partitions.
    """
    places = partitions_of([*map(target_of, sources()), APPENDED])
    async with Consumer(cluster.bootstrap) as consumer:
        ends = await consumer.end_offsets(places)
    for number in cluster.running:
        await asyncio.to_thread(cluster.stop, number)
    directories = {number: cluster.log_directory(number) for number in cluster.numbers}
    found = [each for place in places for each in differences(directories, place, ends[place])]
    rules = Rules(now_ms=int(time.time() * 1000))
    alarms = await asyncio.to_thread(lambda: [*alarms_in([*directories.values()], rules)])
    return found + [str(each) for each in alarms]


class Judge:
    """Compares the outputs with the inputs while no input arrives and every process runs."""

    def __init__(self, bootstrap: str, pipelines: Pipelines) -> None:
        self._bootstrap = bootstrap
        self._pipelines = pipelines
        self.record_count = 0
        self.longest_settling_s = 0.0

    async def check(self) -> None:
        """Wait until every input is processed, and compare.

        Raises:
            AssertionError: a pipeline or a transaction hangs, or an output is wrong.
        """
        began_s = time.monotonic()
        late: set[str] = set(sources())
        while left := await self._left():
            # A pipeline is reported once, when it has processed everything.
            done = late - {place.topic for place in left}
            if UNKNOWN not in left and done:
                late -= done
                sys.stderr.write(f"{time.monotonic() - began_s:.1f} s: {sorted(done)} done\n")
            report = "\n".join([str(left), *self._pipelines.report()])
            assert time.monotonic() < began_s + SETTLE_S, f"not processed: {report}"
            await asyncio.sleep(LOOK_INTERVAL_S)
        settling_s = time.monotonic() - began_s
        self.longest_settling_s = max(settling_s, self.longest_settling_s)
        await self.require_no_open_transactions()
        count = 0
        for source in sources():
            count += await asyncio.to_thread(self._compare, source)
        assert count > self.record_count, "no record since the previous check"
        self.record_count = count
        sys.stderr.write(f"settled after {settling_s:.1f} s: {count} records are right\n")

    async def _left(self) -> Mapping[TopicPartition, str]:
        """Return the input partitions whose committed offset is not the end."""
        try:
            async with Admin(self._bootstrap) as admin, Consumer(self._bootstrap) as consumer:
                ends = await consumer.end_offsets(partitions_of(sources()))
                found: dict[TopicPartition, CommittedOffset] = {}
                for source in sources():
                    found |= await admin.list_group_offsets(source)
        except OttlaError as error:
            return {UNKNOWN: repr(error)}
        return {
            place: f"{found[place].offset if place in found else None} of {end}"
            for place, end in ends.items()
            if place not in found or found[place].offset != end
        }

    def _compare(self, source: str) -> int:
        """Compare all committed outputs of a pipeline with its inputs; return their number."""
        inputs = committed_values(self._bootstrap, source, PARTITIONS)
        outputs = committed_values(self._bootstrap, target_of(source), PARTITIONS)
        for number in range(PARTITIONS):
            place = TopicPartition(source, number)
            acknowledged = self._pipelines.feeder.acknowledged[place]
            assert len(inputs[number]) == len(set(inputs[number])), f"{place} has duplicates"
            assert acknowledged <= set(inputs[number]), f"{place} has lost inputs"
            expected = [value[::-1] for value in inputs[number]]
            assert outputs[number] == expected, difference(source, number, expected, outputs)
        return sum(map(len, outputs))

    async def require_no_open_transactions(self) -> None:
        """Wait until no transaction is open, neither at its coordinator nor in a partition.

        The coordinator aborts the one of a killed producer that has not begun another.
        """
        began_s = time.monotonic()
        while trouble := await self._open_transactions():
            assert time.monotonic() < began_s + SETTLE_S, f"transactions hang: {trouble}"
            await asyncio.sleep(LOOK_INTERVAL_S)
        command = [sys.executable, "-m", "ottla.cli", "transactions", "find-hanging"]
        command += ["--max-transaction-timeout", "0", "--bootstrap", self._bootstrap]
        for topic in self._topics():
            command += ["--topic", topic]
        found = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        assert found.returncode == 0, f"{found.stdout}{found.stderr}"

    @staticmethod
    def _topics() -> list[str]:
        """Return the topics that the pipelines' transactions write."""
        return [*map(target_of, sources()), OFFSETS_TOPIC]

    async def _open_transactions(self) -> list[str]:
        try:
            async with (
                Admin(self._bootstrap) as admin,
                Consumer(self._bootstrap) as uncommitted,
                Consumer(self._bootstrap, isolation_level="read_committed") as committed,
            ):
                described = await admin.describe_topics(self._topics())
                places = [
                    TopicPartition(topic, number)
                    for topic, each in described.items()
                    for number in range(len(each.partitions))
                ]
                high, stable = [await each.end_offsets(places) for each in (uncommitted, committed)]
                listed = await admin.list_transactions()
        except OttlaError as error:
            return [repr(error)]
        ours = [each for each in listed if each.transactional_id.startswith(tuple(sources()))]
        open_ids = [str(each) for each in ours if each.state not in ENDED]
        return open_ids + [
            f"{place}: stable to {stable[place]} of {high[place]}"
            for place in places
            if stable[place] != high[place]
        ]

    async def require_proof(self, count: int) -> None:
        """Assert that every kind has committed and aborted transactions."""
        for kind in KINDS:
            members = [each for each in self._pipelines.members.values() if each.kind == kind]
            outcomes = sum((each.outcomes() for each in members), start=Counter[str]())
            assert outcomes["committed"] > count, f"{kind}: {outcomes}"
            assert outcomes["aborted"] > 0, f"{kind}: {outcomes}"


def difference(source: str, number: int, expected: list[str], outputs: list[list[str]]) -> str:
    """Return the first places where outputs are not the expected ones."""
    found = outputs[number]
    lost, extra = set(expected) - set(found), set(found) - set(expected)
    twice = {value for value in found if found.count(value) > 1} if len(found) > 1 else set()
    first = next(
        (
            place
            for place, pair in enumerate(zip(expected, found, strict=False))
            if len(set(pair)) > 1
        ),
        min(len(expected), len(found)),
    )
    return (
        f"{source}-{number}: {len(expected)} inputs, {len(found)} outputs, first difference at "
        f"{first}: lost {sorted(lost)[:5]}, unknown {sorted(extra)[:5]}, twice {sorted(twice)[:5]}"
    )
