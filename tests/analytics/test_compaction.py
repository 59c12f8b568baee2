"""The compaction audit finds each planted violation from the files alone, and nothing else."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from logcheck.finding import Damage, Severity
from logcheck.rule import DAY_MS, Rules, parse_rules
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.compaction_violations import COMPACTION, Plant
from tests.analytics.log_model import Bat, Log, compact, make_log, one_each
from tests.analytics.planter import segments

HORIZON_MS = NOW_MS + RULES.delete_retention_ms


@pytest.mark.parametrize("codec", list(Codec))
def test_correctly_compacted_log_passes(tmp_path: Path, codec: Codec) -> None:
    raw = make_log(codec=codec)
    raw.write(tmp_path / "raw")
    compact(raw, horizon_ms=HORIZON_MS).write(tmp_path / "clean")
    assert findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw") == []
    assert findings_of("integrity", tmp_path / "clean") == []


@pytest.mark.parametrize("plant", COMPACTION.values(), ids=COMPACTION.keys())
def test_audit_reports_exactly_the_planted_violation(tmp_path: Path, plant: Plant) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    log, expected = plant(raw, compact(raw, horizon_ms=HORIZON_MS))
    log.write(tmp_path / "clean")
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert {(each.damage, each.offset) for each in found} == expected
    assert len(found) == len(expected)
    assert all(Path(each.file).is_relative_to(tmp_path / "clean") for each in found)
    assert all(each.position is not None for each in found)


def test_damage_of_the_reference_is_not_blamed_on_the_log(tmp_path: Path) -> None:
    raw = make_log()
    reference = raw.write(tmp_path / "raw")
    compact(raw, horizon_ms=HORIZON_MS).write(tmp_path / "clean")
    # The damaged batch contains the last records of some keys.
    segments(reference)[2].flip(15, 90)
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert {each.damage for each in found} == {"bad_crc"}


def test_old_tombstones_may_be_gone(tmp_path: Path) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    compact(raw, keep_tombstones=False).write(tmp_path / "clean")
    later = Rules(now_ms=NOW_MS + 2 * RULES.delete_retention_ms)
    assert (
        findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw", rules=later) == []
    )
    early = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert {each.damage for each in early} == {"tombstone_gone_early"}


def test_audit_without_a_reference_still_finds_duplicates(tmp_path: Path) -> None:
    raw = make_log()
    log, expected = COMPACTION["a duplicate key"](raw, compact(raw))
    log.write(tmp_path)
    found = findings_of("compaction", tmp_path)
    assert {(each.damage, each.offset) for each in found} == expected


def test_shards_find_the_same_as_one_table(tmp_path: Path) -> None:
    from analytics.discovery import find_replicas
    from analytics.partition_audit import audit_partition
    from analytics.plan import Audit, plan_tasks, split_task
    from kafkawire.ids import TopicPartition

    raw = make_log()
    raw.write(tmp_path / "raw")
    log, expected = COMPACTION["a batch of lost keys"](raw, compact(raw, horizon_ms=HORIZON_MS))
    log.write(tmp_path / "clean")
    here = TopicPartition("orders", 0)
    replicas = find_replicas(str(tmp_path / "clean"), lambda _: None)
    reference = find_replicas(str(tmp_path / "raw"), lambda _: None)[0]
    [task] = plan_tasks(Audit.COMPACTION, {here: replicas}, {here: reference}, RULES)
    shards = [shard for half in split_task(task) for shard in split_task(half)]
    assert len({(shard.shard, shard.shard_count) for shard in shards}) == 4
    found = [
        finding
        for shard in range(4)
        for findings, _ in audit_partition(replace(task, shard=shard, shard_count=4))
        for finding in findings
    ]
    assert {(each.damage, each.offset) for each in found} == expected
    assert len(found) == len(expected)


def test_tombstones_of_a_quiet_log_may_wait_for_ever(tmp_path: Path) -> None:
    """No cleaner reads a log again without new records."""
    compact(make_log(), horizon_ms=HORIZON_MS).write(tmp_path)
    later = replace(RULES, now_ms=HORIZON_MS + RULES.tombstone_grace_ms + 1)
    found = findings_of("compaction", tmp_path, rules=later)
    assert {(each.damage, each.severity) for each in found} == {
        (Damage.TOMBSTONE_KEPT_LATE, Severity.NOTE)
    }


def test_retention_of_tombstones_that_differs_from_the_rule_is_a_warning(tmp_path: Path) -> None:
    raw = make_log()
    compact(raw, horizon_ms=HORIZON_MS).write(tmp_path)
    assert findings_of("compaction", tmp_path) == []
    shorter = parse_rules(["other:delete.retention.ms=5", "orders:delete.retention.ms=1000"])
    found = findings_of("compaction", tmp_path, rules=replace(shorter, now_ms=NOW_MS))
    assert {(each.damage, each.severity) for each in found} == {
        (Damage.HORIZON_IN_FUTURE, Severity.WARNING)
    }
    ours = parse_rules(["delete.retention.ms=5", f"orders:delete.retention.ms={DAY_MS}"])
    assert findings_of("compaction", tmp_path, rules=replace(ours, now_ms=NOW_MS)) == []


def resurrected(point: int | None) -> tuple[Log, Log]:
    """Return a log, and its twin that has lost a tombstone, and not the value before it."""
    old, deleted, *others = one_each(
        (0, b"k", b"v"), (1, b"k", None), (2, b"other", b"v"), (3, b"last", b"v")
    )
    raw = Log(segments=[(0, [old, deleted, others[0]]), (3, others[1:])])
    return raw, replace(raw, segments=[(0, [old, others[0]]), raw.segments[1]], cleaner_point=point)


@pytest.mark.parametrize("point", [3, None], ids=["checkpoint", "no checkpoint"])
@pytest.mark.parametrize("age_days", [0, 2], ids=["young", "old"])
def test_a_deleted_key_that_comes_back_is_reported(
    tmp_path: Path, point: int | None, age_days: int
) -> None:
    """No cleaner removes a tombstone before the older records of its key."""
    raw, log = resurrected(point)
    raw.write(tmp_path / "raw")
    log.write(tmp_path / "clean")
    rules = Rules(now_ms=NOW_MS + age_days * DAY_MS)
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw", rules=rules)
    [fault] = [each for each in found if each.severity is not Severity.NOTE]
    if point is None and not age_days:
        expected = Damage.TOMBSTONE_GONE_EARLY, 1, Severity.WARNING
    else:
        # A replica that lagged for longer than tombstones are kept never sees the tombstone.
        severity = Severity.WARNING if age_days else Severity.ERROR
        expected = Damage.STALE_VALUE, 0, severity
    assert (fault.damage, fault.offset, fault.severity) == expected


def test_a_deleted_key_with_a_later_record_has_not_come_back(tmp_path: Path) -> None:
    """The cleaner of a leader may have removed the tombstone for the later record."""
    raw, log = resurrected(3)
    again = one_each((4, b"k", b"again"))
    for each, name in ((raw, "raw"), (log, "clean")):
        base, batches = each.segments[1]
        replace(each, segments=[each.segments[0], (base, [*batches, *again])]).write(
            tmp_path / name
        )
    rules = Rules(now_ms=NOW_MS + 2 * DAY_MS)
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw", rules=rules)
    assert {each.severity for each in found} <= {Severity.NOTE}


ABORT, COMMIT = (
    one_each(
        (5, bytes([0, 0, 0, kind]), bytes(6)),
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    for kind in (0, 1)
)


def superseded_in_transaction(marker: list[Bat], *, is_lost: bool, is_active: bool) -> Log:
    """Return a log without the record at 0, whose key has a record in a transaction at 4."""
    first = one_each((0, b"k", b"v"), (1, b"other", b"v"))[is_lost:]
    later = one_each((4, b"k", b"new"), producer_id=7, producer_epoch=0, is_transactional=True)
    later = [replace(later[0], sequence=0), *marker]
    last = one_each((6, b"last", b"v"))
    cleaned = [*first, *one_each((2, b"third", b"v"))]
    if is_active:
        segments = [(0, cleaned), (3, [*one_each((3, b"fourth", b"v")), *later, *last])]
    else:
        segments = [(0, cleaned), (3, [*one_each((3, b"fourth", b"v")), *later]), (6, last)]
    return Log(segments=segments, cleaner_point=3 if is_lost else None)


@pytest.mark.parametrize("is_active", [False, True], ids=["sealed", "active"])
@pytest.mark.parametrize("marker", [ABORT, COMMIT, []], ids=["aborted", "committed", "open"])
@pytest.mark.parametrize("has_index", [False, True])
def test_only_a_committed_record_supersedes_a_lost_one(
    tmp_path: Path, marker: list[Bat], *, is_active: bool, has_index: bool
) -> None:
    for name, is_lost in (("raw", False), ("clean", True)):
        log = superseded_in_transaction(marker, is_lost=is_lost, is_active=is_active)
        directory = log.write(tmp_path / name)
        if marker is ABORT and has_index:
            entry = struct.pack(">hqqqq", 0, 7, 4, 5, 6)
            (directory / f"{3:020d}.txnindex").write_bytes(entry)
    here, there = tmp_path / "clean", tmp_path / "raw"
    expected = set() if marker is COMMIT else {("lost_key", 0)}
    severity = Severity.ERROR if marker is ABORT else Severity.WARNING
    rules = replace(RULES, transaction_timeout_ms=DAY_MS)
    for found in (
        findings_of("compaction", here, against=there, rules=rules),
        findings_of("replicas", here, there, rules=rules),
    ):
        alarms = [each for each in found if each.check == "S9" and each.severity != "note"]
        assert {(each.damage, each.offset) for each in alarms} == expected
        assert {each.severity for each in alarms} <= {severity}


def test_aborted_records_below_a_point_that_is_a_log_start_are_no_unknown_ones(
    tmp_path: Path,
) -> None:
    """Kafka raises the cleaner's point to a log start within a segment, and cleans nothing."""
    log = superseded_in_transaction(ABORT, is_lost=False, is_active=False)
    for name, point in (("raw", None), ("log", 6)):
        directory = replace(log, cleaner_point=point).write(tmp_path / name)
        entry = struct.pack(">hqqqq", 0, 7, 4, 5, 6)
        (directory / f"{3:020d}.txnindex").write_bytes(entry)
    found = findings_of("compaction", tmp_path / "log", against=tmp_path / "raw")
    assert [each for each in found if each.check == "S9"] == []
