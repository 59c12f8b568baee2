"""The copies and the planted violation of the demonstration. `make demo` runs its audits."""

from pathlib import Path

from logcheck.finding import Severity
from scripts.demo.planted_fault import link_topic, plant_lost_batch
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import compact, make_log
from tests.analytics.planter import segments

HORIZON_MS = NOW_MS + RULES.delete_retention_ms


def test_copy_contains_one_topic_and_its_checkpoints(tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    for partition in range(2):
        compact(make_log(partition=partition), horizon_ms=HORIZON_MS).write(broker)
    other = make_log()
    other.topic = "orders-of-others"
    other.write(broker)
    copy = link_topic(broker, "orders", tmp_path / "copy")
    assert copy is not None
    assert sorted(path.name for path in copy.iterdir() if path.is_dir()) == ["orders-0", "orders-1"]
    assert findings_of("integrity", copy) == []
    assert link_topic(broker, "payments", tmp_path / "nothing") is None


def test_audit_finds_the_planted_violation_and_the_original_is_unchanged(tmp_path: Path) -> None:
    # The active segment has only half of the keys.
    compact(make_log(key_count=200), horizon_ms=HORIZON_MS).write(tmp_path / "sound")
    batch_count = len(segments(tmp_path / "sound" / "orders-0")[0].batches)
    assert plant_lost_batch(tmp_path / "sound", tmp_path / "spoiled") is not None
    assert len(segments(tmp_path / "spoiled" / "orders-0")[0].batches) == batch_count - 1
    assert findings_of("compaction", tmp_path / "sound") == []
    found = findings_of("compaction", tmp_path / "spoiled", against=tmp_path / "sound")
    assert {(each.damage, each.severity) for each in found} == {("lost_key", Severity.ERROR)}


def test_no_violation_is_planted_in_an_uncompacted_log(tmp_path: Path) -> None:
    make_log().write(tmp_path / "sound")
    assert plant_lost_batch(tmp_path / "sound", tmp_path / "spoiled") is None
