"""Two sound logs to damage, one cleaned and one not, and the verdicts on their damaged copies."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from analytics.plan import Audit
from logcheck.finding import Finding, Severity
from logcheck.rule import Rules
from storage.config.log_config import COMPACT, LogConfig
from tests.analytics.histories.cluster import CLOCK_ERROR_MS, Cluster
from tests.analytics.histories.edited_log import EditedLog
from tests.analytics.histories.verdicts import audited, verified
from tests.unit.storage.faults import faulty

CONFIG: Final = LogConfig(
    cleanup_policy=frozenset({COMPACT}),
    segment_bytes=2_000,
    index_interval_bytes=200,
    segment_index_bytes=1_200,
    delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0.0,
)
SEED: Final = 1


class Bases(NamedTuple):
    """The log dirs of the archive and of the cleaned leader, and the time of the last write."""

    raw: Path
    clean: Path
    now_ms: int

    def rules(self, *, is_cleaned: bool) -> Rules:
        """The rules of the topic: the log that was not cleaned is one of a topic that never is."""
        return Rules(
            now_ms=self.now_ms,
            cleanup_policy="compact" if is_cleaned else "delete",
            delete_retention_ms=CONFIG.delete_retention_ms,
            message_timestamp_after_max_ms=CLOCK_ERROR_MS,
        )


def make_bases(root: Path, seed: int = SEED) -> Bases:
    """Write both logs below `root`: four epochs, all kinds of producers, two rounds of cleaning."""
    with faulty() as faults:
        cluster = Cluster(root, seed, faults, CONFIG)
        dice = random.Random(seed)
        for epoch in range(4):
            for _ in range(20):
                cluster.now_ms += 20
                dice.choice([cluster.produce, cluster.produce, cluster.end_transaction])()
                if dice.random() < 0.15:
                    cluster.leader.log.upkeep.roll(cluster.now_ms)
            if epoch in (1, 2):
                cluster.leader.clean(cluster.now_ms, slot_count=1_000)
                cluster.now_ms += 1_500
            cluster.elect()
        while any(each.is_open for each in cluster.producers):
            cluster.end_transaction()
        for each in (cluster.leader, cluster.archive):
            each.log.upkeep.roll(cluster.now_ms)
        cluster.now_ms += 100
        for _ in range(4):
            cluster.produce()
        while any(each.is_open for each in cluster.producers):
            cluster.end_transaction()
        cluster.now_ms += 100
        cluster.leader.clean(cluster.now_ms, slot_count=1_000)
        for each in (cluster.leader, cluster.archive):
            each.logs.remove_deleted(cluster.now_ms, delay_ms=0)
            each.log.upkeep.remove_deleted_files(2**60)
            each.stop()
        bases = Bases(cluster.archive.root, cluster.leader.root, cluster.now_ms)
        cluster.close()
    return bases


class Row(NamedTuple):
    """The kinds of findings on a damaged log: errors and warnings."""

    verify: frozenset[str]
    integrity: frozenset[str]
    compaction: frozenset[str]
    against: frozenset[str]
    """Of `compaction --against` the undamaged log that was never cleaned."""
    replicas: frozenset[str]
    """Of `replicas`, with the undamaged log as the other replica."""
    verify_two: frozenset[str]
    """Of `logs verify` of both."""

    @property
    def alone(self) -> frozenset[str]:
        """The kinds found in the damaged log alone."""
        return self.verify | self.integrity | self.compaction

    @property
    def compared(self) -> frozenset[str]:
        """The other kinds, found with an undamaged log beside it."""
        return (self.against | self.replicas | self.verify_two) - self.alone


def kinds(findings: list[Finding]) -> frozenset[str]:
    """Return the kinds of damage among errors and warnings."""
    return frozenset(str(each.damage) for each in findings if each.severity is not Severity.NOTE)


def judge_damage(
    bases: Bases, damage: Callable[[EditedLog], object], work: Path, *, is_cleaned: bool
) -> Row | None:
    """Damage a copy of a log below `work`; return the findings, or None without any effect."""
    intact = bases.clean if is_cleaned else bases.raw
    rules = bases.rules(is_cleaned=is_cleaned)
    shutil.rmtree(work, ignore_errors=True)
    root, twin = work / "damaged", work / "intact"
    for each in (root, twin):
        shutil.copytree(intact, each)
    if damage(EditedLog(root)) is False:
        return None
    return Row(
        kinds(verified([root], rules)),
        kinds(audited(Audit.INTEGRITY, [root], rules)),
        kinds(audited(Audit.COMPACTION, [root], rules)),
        kinds(audited(Audit.COMPACTION, [root], rules, bases.raw)),
        kinds(audited(Audit.REPLICAS, [root, twin], rules)),
        kinds(verified([root, twin], rules)),
    )
