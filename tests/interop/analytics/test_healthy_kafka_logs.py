"""No audit finds anything wrong in the logs of real Kafka brokers that live through everything.

Three brokers of Kafka 3.9.1 serve partitions with random configs: transactions, cleanings,
retention, DeleteRecords, reassignments, deaths. Each partition is one history; OTTLA_HISTORIES
(100) and OTTLA_SEED change their number and seed. The logs are audited in copies that are taken
while the brokers run, and after their end.
"""

import asyncio
import os
import random
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.analytics.histories.verdicts import Alarm, alarms_in
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
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip

START_TIMEOUT_S: Final = 180.0
BROKERS: Final = (1, 2, 3)
HISTORIES: Final = 100
PARTITIONS: Final = 4
REPLICATION_FACTOR: Final = 2
COPY_COUNT: Final = 8
COPY_INTERVAL_S: Final = 8.0
BUSY: Final = {
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "log.flush.start.offset.checkpoint.interval.ms": "2500",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[KafkaBroker]]:
    """Three brokers of Kafka with our coordinator."""
    jars = kafka_jars_or_skip()
    coordinator = Coordinator(tmp_path / "coordinator")
    started: list[KafkaBroker] = []
    try:
        started += [
            KafkaBroker(number, tmp_path, coordinator.address, jars, BUSY) for number in BROKERS
        ]
        for each in started:
            wait_until(each.has_started, START_TIMEOUT_S)
        yield started
    finally:
        for each in started:
            each.kill()
        coordinator.kill()


class Watch:
    """The audits of copies, and their alarms."""

    def __init__(self, brokers: list[KafkaBroker], topics: Topics, work: Path) -> None:
        self._brokers = brokers
        self._topics = topics
        self._work = work
        self.alarms: list[str] = []
        self.copy_count = 0

    def audit_running(self) -> None:
        """Copy the log directories of all brokers, and audit the copies."""
        roots = []
        for each in self._brokers:
            root = self._work / f"{self.copy_count}" / each.log_directory.name
            copy_live(each.log_directory, root)
            roots.append(root)
        self.audit(roots)

    def audit(self, roots: list[Path]) -> None:
        """Audit log directories, and remove the copies among them that have no alarm."""
        rules = rules_of(self._topics, int(time.time() * 1000))
        found = [
            each for each in alarms_in(roots, rules) if not is_explained(each.finding, self._topics)
        ]
        self.copy_count += 1
        for alarm in found:
            self._keep(alarm, roots)
        shutil.rmtree(self._work, ignore_errors=True)

    def _keep(self, alarm: Alarm, roots: list[Path]) -> None:
        self.alarms.append(f"copy {self.copy_count}: {alarm}")
        sys.stderr.write(f"{self.alarms[-1]}\n")
        if folder := os.environ.get("OTTLA_KEPT"):
            keep(alarm.finding, roots, Path(folder) / f"{self.copy_count}")


@pytest.mark.soak
def test_no_alarm_in_the_logs_of_busy_kafka_brokers(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    count = int(os.environ.get("OTTLA_HISTORIES", HISTORIES))
    sys.stderr.write(f"OTTLA_SEED={seed}\n")
    dice = random.Random(seed)
    topics = random_topics(dice, count // PARTITIONS)
    bootstrap = ",".join(each.address for each in brokers)
    place = bootstrap, topics, PARTITIONS
    asyncio.run(create_topics(*place, REPLICATION_FACTOR))
    watch = Watch(brokers, topics, tmp_path / "copies")
    with (
        RandomWriter(*place, seed, turn_s=0) as first,
        RandomWriter(*place, seed + 1, turn_s=0) as second,
        Operator(*place, list(BROKERS), seed, turn_s=0.2) as operator,
    ):
        for _ in range(COPY_COUNT):
            # The load needs time; there is no condition to wait for.
            time.sleep(COPY_INTERVAL_S)
            watch.audit_running()
    *others, killed = dice.sample(brokers, len(brokers))
    killed.kill()
    for each in others:
        each.stop()
    roots = [each.log_directory for each in brokers]
    watch.audit(roots)
    cleaned = [
        topic
        for topic in topics
        if any(topic in (root / "cleaner-offset-checkpoint").read_text() for root in roots)
    ]
    counts = {
        "histories": len(topics) * PARTITIONS,
        "copies": watch.copy_count,
        "records": first.count + second.count,
        "commits": first.committed_count + second.committed_count,
        "aborts": first.aborted_count + second.aborted_count,
        "deletions": operator.deletion_count,
        "moves": operator.move_count,
        "cleaned topics": len(cleaned),
        "alarms": len(watch.alarms),
    }
    sys.stderr.write(f"{counts}\n")
    assert not watch.alarms, "\n".join(watch.alarms[:20])
    assert all(counts[kind] for kind in counts if kind != "alarms"), f"too little: {counts}"
