"""No audit raises an alarm at any moment of a history that a healthy cluster can have.

An alarm is an error or a warning. A warning is no alarm if something happened that the audit cannot
know: a config of the topic was changed, records were deleted, a replica died while it emptied
its log, it lagged for longer than tombstones are kept, or its end was cut off.
`python -m tests.analytics.histories.replay SEED` shows a history.
"""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from logcheck.finding import Severity
from tests.analytics.histories.cluster import (
    DELETING,
    EMPTYING,
    FORGETTING,
    LAGGING,
    UNDOING,
    Cluster,
)
from tests.analytics.histories.verdicts import Alarm, Judge
from tests.unit.storage.faults import faulty

STEPS: Final = 40
MEMORY: Final = Path("/dev/shm")
SOAK_HISTORIES: Final = 100
"""Histories per seed of the soak test."""
# The warnings that a change of a config, or a rare death, may explain.
EXPLAINED: Final = {
    "cleanup_policy": {
        "offset_gap",
        "records_missing",
        "no_key",
        "cleaned_beyond_checkpoint",
        "replica_differs",
    },
    "delete_retention_ms": {
        "horizon_in_future",
        "marker_lost",
        "tombstone_kept_late",
        "tombstone_gone_early",
    },
    DELETING: {"sequence_broken", "producer_epoch_back"},
    EMPTYING: {
        "checkpoint_beyond",
        "epoch_beyond",
        "lost_key",
        "replica_differs",
        "rewritten_batch",
    },
    LAGGING: {"lost_key", "stale_value"},
    FORGETTING: {"replica_differs", "rewritten_batch", "sequence_broken", "producer_epoch_back"},
    UNDOING: {"producer_lost"},
}
# Seeds that raised a false alarm, by the kind of the finding.
EXAMPLES: Final = [
    ("sequence_broken", 3657086455),
    ("lost_key", 3812834880),
    ("lost_key", 575773197),
    ("lost_key", 432824059),
    ("records_missing", 2159625230),
    ("rewritten_batch", 2767107933),
    ("bad_checkpoint_line", 3868558368),
    ("checkpoint_beyond", 2723131334),
    ("lost_key", 874607870),
    ("producer_lost", 1717073265),
    ("rewritten_batch", 3876304943),
    ("epoch_start", 1704689435),
]
# Histories are drawn in other ways since, so these seeds replay other ones than they did.
OLDER_EXAMPLES: Final = [
    ("index_missing", 3007),
    ("time_last_entry", 3004),
    ("txnindex_missing", 3017),
    ("txnindex_missing", 2100003362),
    ("txnindex_range", 3086),
    ("txnindex_stable", 1422633010),
    ("epoch_beyond", 3013),
    ("epoch_beyond", 3021),
    ("epoch_start", 600106),
    ("checkpoint_beyond", 500171),
    ("index_missing", 500581),
    ("txnindex_entry", 500181),
    ("sequence_broken", 600065),
    ("checkpoint_beyond", 3032),
    ("replica_differs", 3010),
    ("rewritten_batch", 3010),
    ("cleaned_beyond_checkpoint", 3018),
    ("producer_lost", 3025),
    ("marker_lost", 3116),
    ("hanging_transaction", 3019),
    ("tombstone_kept_late", 3048),
    ("duplicate_key", 3012),
    ("stale_value", 1788191809),
    ("tombstone_gone_early", 1788191809),
    ("tombstone_gone_early", 3772944533),
    ("kept_too_long", 3016),
    ("kept_too_long", 4202442812),
    ("kept_too_much", 493140363),
    ("lost_key", 1788191809),
    ("changed_value", 3125),
    ("sequence_broken", 800236),
    ("snapshot_producer", 800224),
    ("snapshot_producer", 1000063),
    ("lost_key", 1000182),
    ("zero_tail", 1010019),
    ("producer_lost", 10321),
    ("txnindex_missing", 977282557),
    ("tombstone_gone_early", 3296564392),
    ("replica_differs", 3470352589),
]


def alarms_of(seed: int, root: Path) -> Iterator[Alarm]:
    """Yield the alarms of the history from `seed`, each with the number of its step as a note."""
    with faulty() as faults:
        cluster, judge = Cluster(root, seed, faults), Judge()
        try:
            for _ in range(STEPS):
                cluster.step()
                expired = cluster.expired.root if cluster.expired else None
                found = judge.alarms(cluster.roots, cluster.rules, cluster.archive.root, expired)
                yield from (each for each in found if not is_explained(each, cluster.changes))
                assert not judge.disagreements, cluster.deeds
        finally:
            cluster.close()


def is_explained(alarm: Alarm, changes: set[str]) -> bool:
    """Whether one of the cluster's `changes` explains a warning."""
    explained = {kind for change in changes for kind in EXPLAINED.get(change, ())}
    return alarm.finding.severity is Severity.WARNING and alarm.finding.damage in explained


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a directory in memory, if there is one."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name) / "root"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.mark.soak
@pytest.mark.fresh_seeds(12)
def test_no_alarm_in_a_healthy_history(seed: int, root: Path) -> None:
    found = list(alarms_of(seed, root))
    assert not found, "\n".join(map(str, found[:5]))


@pytest.mark.parametrize(
    ("kind", "seed"),
    [*EXAMPLES, *(pytest.param(*each, marks=pytest.mark.soak) for each in OLDER_EXAMPLES)],
)
def test_no_alarm_in_a_history_that_had_one(kind: str, seed: int, root: Path) -> None:
    assert kind not in {str(each.finding.damage) for each in alarms_of(seed, root)}


@pytest.mark.soak
@pytest.mark.fresh_seeds(100)
def test_no_alarm_in_ten_thousand_histories(seed: int, root: Path) -> None:
    dice = random.Random(seed)
    for _ in range(SOAK_HISTORIES):
        one = dice.getrandbits(32)
        found = list(alarms_of(one, root))
        assert not found, f"seed {one}:\n" + "\n".join(map(str, found[:5]))
        shutil.rmtree(root)
