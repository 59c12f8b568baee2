"""Brokers that are killed while they clean leave logs in which no audit finds anything wrong.

Two hundred rounds with `make soak`; OTTLA_ROUNDS and OTTLA_SEED change their number and seed.
"""

import asyncio
import os
import random
import secrets
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.analytics.histories.verdicts import Alarm, alarms_in
from tests.harness.cluster import ClusterProcesses
from tests.harness.log_copy import copy_live, keep
from tests.harness.random_life import (
    Operator,
    RandomWriter,
    Topics,
    create_topics,
    is_explained,
    random_topics,
    rules_of,
)

MANY: Final = 200
TOPIC_COUNT: Final = 6
PARTITIONS: Final = 1
REPLICATION_FACTOR: Final = 2
RUN_S: Final = (0.2, 1.2)
"""The time between two kills."""
BUSY: Final = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "900",
    "replica.high.watermark.checkpoint.interval.ms": "800",
    "log.cleaner.dedupe.buffer.size": "1100000",
    "offsets.topic.replication.factor": "1",
}


class Rounds:
    """Kills of brokers under a random load, with audits of dead and running brokers."""

    def __init__(self, cluster: ClusterProcesses, topics: Topics, seed: int, work: Path) -> None:
        self._cluster = cluster
        self._topics = topics
        self._dice = random.Random(seed)
        self._work = work
        self.alarms: list[str] = []
        self.counts: Counter[str] = Counter()

    def play(self, number: int) -> None:
        """Kill brokers, or stop one in order; audit all log directories; start again."""
        cluster, dice = self._cluster, self._dice
        # The seed determines the moment; there is no condition to wait for.
        time.sleep(dice.uniform(*RUN_S))
        victims = dice.sample(cluster.numbers, dice.choice([1, 1, 2]))
        if dice.random() < 0.1:
            assert cluster.stop(victims[0]) == 0
        for victim in victims:
            if victim in cluster.brokers:
                cluster.kill(victim)
        shutil.rmtree(self._work, ignore_errors=True)
        roots = []
        for each in cluster.numbers:
            root = cluster.log_directory(each)
            if each not in victims:
                root = self._work / root.name
                copy_live(cluster.log_directory(each), root)
            roots.append(root)
        self._audit(number, roots)
        cluster.start_brokers(*victims)

    def _audit(self, number: int, roots: list[Path]) -> None:
        rules = rules_of(self._topics, int(time.time() * 1000))
        found = [
            each for each in alarms_in(roots, rules) if not is_explained(each.finding, self._topics)
        ]
        self.counts["rounds"] += 1
        self.counts["alarms"] += len(found)
        for each in found:
            self._keep(number, each, roots)

    def _keep(self, number: int, alarm: Alarm, roots: list[Path]) -> None:
        self.alarms.append(f"round {number}: {alarm}")
        sys.stderr.write(f"round {number}: {alarm}\n")
        if folder := os.environ.get("OTTLA_KEPT"):
            keep(alarm.finding, roots, Path(folder) / f"{number}")


def run(directory: Path, seed: int, count: int) -> Rounds:
    """Run `count` rounds."""
    topics = random_topics(random.Random(seed), TOPIC_COUNT)
    with ClusterProcesses(directory, overrides=BUSY) as cluster:
        place = cluster.bootstrap, topics, PARTITIONS
        asyncio.run(create_topics(*place, REPLICATION_FACTOR))
        rounds = Rounds(cluster, topics, seed, directory / "copies")
        with (
            RandomWriter(*place, seed, turn_s=0.01, has_transactions=False) as writer,
            Operator(*place, cluster.numbers, seed, turn_s=0.5) as operator,
        ):
            for number in range(count):
                rounds.play(number)
    rounds.counts["records"] = writer.count
    rounds.counts["deletions"], rounds.counts["moves"] = (
        operator.deletion_count,
        operator.move_count,
    )
    cleaned = [
        line
        for number in cluster.numbers
        for line in (directory / f"broker-{number}.jsonl").read_text().splitlines()
        if '"cleaning.finished"' in line
    ]
    rounds.counts["cleanings"] = len(cleaned)
    return rounds


@pytest.mark.soak
def test_killed_brokers_leave_logs_without_findings(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    count = int(os.environ.get("OTTLA_ROUNDS", MANY))
    sys.stderr.write(f"OTTLA_SEED={seed}\n")
    rounds = run(tmp_path, seed, count)
    sys.stderr.write(f"{dict(rounds.counts)}\n")
    assert not rounds.alarms, "\n".join(rounds.alarms[:20])
    for kind in ("records", "cleanings"):
        assert rounds.counts[kind] > 0, f"no {kind}, so the rounds prove little"
