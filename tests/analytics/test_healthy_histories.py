"""Histories that a healthy log may have pass the audits and the verification of its files."""

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from logcheck.finding import Damage, Finding, Severity
from logcheck.rule import Rules, parse_rules
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import START_MS, Bat, Log, Rec, add_checkpoint, compact, make_log

HORIZON_MS = NOW_MS + RULES.delete_retention_ms


def verified(*roots: Path, rules: tuple[str, ...] = ()) -> list[Finding]:
    """Return all findings of `ottla logs verify --deep`."""
    parsed = replace(parse_rules(rules), now_ms=NOW_MS)
    options = VerifyOptions(with_records=True, rules=parsed)
    return [each for result in verify_directories(roots, options) for each in result.reported]


def audited(audit: str, *roots: Path, rules: tuple[str, ...] = ()) -> list[Finding]:
    return findings_of(audit, *roots, rules=replace(parse_rules(rules), now_ms=NOW_MS))


def kinds(found: list[Finding]) -> set[tuple[Damage, Severity]]:
    """Return kinds and severities, without the notes."""
    return {(each.damage, each.severity) for each in found if each.severity is not Severity.NOTE}


def reassigned(log: Log) -> Log:
    """Return a new replica of a cleaned log, which rolled its segments at other offsets."""
    batches = log.batches
    half = len(batches) // 2
    return replace(log, segments=[(0, batches[:half]), (batches[half].first, batches[half:])])


def write_pair(tmp_path: Path, first: Log, second: Log) -> tuple[Path, Path]:
    first.write(tmp_path / "a")
    second.write(tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("point", [None, 40])
def test_new_replica_of_a_compacted_log_passes(tmp_path: Path, point: int | None) -> None:
    raw = make_log()
    cleaned = compact(raw, horizon_ms=HORIZON_MS)
    here, there = write_pair(tmp_path, cleaned, replace(reassigned(cleaned), cleaner_point=point))
    raw.write(tmp_path / "raw")
    assert kinds(audited("integrity", there)) == set()
    for pair in ((here, there), (there, here), (tmp_path / "raw", there)):
        assert kinds(audited("replicas", *pair)) == set()
        assert kinds(verified(*pair)) == set()
    if point is None:
        found = findings_of("compaction", there, against=tmp_path / "raw")
        assert kinds(found) == set()


@pytest.mark.parametrize("point", [None, 100])
def test_broker_killed_between_a_swap_and_its_checkpoint_leaves_a_healthy_log(
    tmp_path: Path, point: int | None
) -> None:
    raw = make_log()
    cleaned = replace(compact(raw, horizon_ms=HORIZON_MS), cleaner_point=point)
    here, there = write_pair(tmp_path, cleaned, raw)
    assert kinds(audited("integrity", here)) == set()
    assert kinds(verified(here, there)) == set()
    assert kinds(findings_of("compaction", here, against=there)) == set()


def test_cleaning_sets_horizons_of_its_own_time_without_retention(tmp_path: Path) -> None:
    now, mixed = compact(make_log(), horizon_ms=NOW_MS), compact(make_log(), horizon_ms=NOW_MS - 1)
    last = [each for each in mixed.batches if each.horizon_ms is not None][-1]
    batches = [
        replace(each, horizon_ms=NOW_MS) if each is last else each for each in mixed.segments[0][1]
    ]
    mixed = replace(mixed, segments=[(0, batches), mixed.segments[1]])
    late = {(Damage.TOMBSTONE_KEPT_LATE, Severity.WARNING)}
    for log, expected in ((now, set()), (mixed, late)):
        shutil.rmtree(tmp_path)
        log.write(tmp_path)
        rules = ("delete.retention.ms=0",)
        assert kinds(audited("compaction", tmp_path, rules=rules)) == expected


@pytest.mark.parametrize("new_part", [0, 1], ids=["died in between", "whole"])
def test_cleaning_proves_nothing_about_later_segments(tmp_path: Path, new_part: int) -> None:
    """A broker that is killed while it cleans leaves later segments to the next cleaning."""
    log = compact(make_log(), horizon_ms=HORIZON_MS)
    (_, batches), active = log.segments
    half = len(batches) // 2
    parts = [batches[:half], batches[half:]]
    parts[1 - new_part] = [
        each if each.horizon_ms is None else replace(each, horizon_ms=NOW_MS - 1)
        for each in parts[1 - new_part]
    ]
    assert all(any(each.horizon_ms is not None for each in part) for part in parts)
    segments = [(0, parts[0]), (parts[1][0].first, parts[1]), active]
    replace(log, segments=segments).write(tmp_path)
    late = {(Damage.TOMBSTONE_KEPT_LATE, Severity.WARNING)}
    assert kinds(audited("compaction", tmp_path)) == (late if new_part else set())


def test_cleaners_point_may_be_a_log_start(tmp_path: Path) -> None:
    """Kafka raises it to the log start that DeleteRecords has raised, and cleans nothing."""
    at_segment = {(Damage.DUPLICATE_KEY, Severity.WARNING)}
    certain = {(Damage.DUPLICATE_KEY, Severity.ERROR)}
    for point, log_start, policy, expected in (
        (123, 123, "compact,delete", set()),
        (123, 0, "compact,delete", set()),
        (100, 0, "compact,delete", at_segment),
        (123, 0, "compact", certain),
    ):
        shutil.rmtree(tmp_path)
        replace(make_log(), cleaner_point=point, log_start=log_start).write(tmp_path)
        rules = (f"cleanup.policy={policy}",)
        assert kinds(audited("compaction", tmp_path, rules=rules)) == expected
        assert kinds(audited("integrity", tmp_path, rules=rules)) == set()


def test_tombstone_that_came_and_went_makes_a_missing_record_a_warning(tmp_path: Path) -> None:
    """A replica that was away for longer than the retention of tombstones keeps older values."""
    raw = make_log(400, 400)
    cleaned = compact(raw, horizon_ms=HORIZON_MS)
    short = without_one_record(cleaned, 3)
    for other, severity in ((cleaned, Severity.WARNING), (raw, Severity.ERROR)):
        here, there = write_pair(tmp_path / severity, short, other)
        for found in (audited("replicas", there, here), verified(there, here)):
            assert (Damage.LOST_KEY, severity) in kinds(found)


def test_tombstone_may_have_gone_under_a_shorter_retention(tmp_path: Path) -> None:
    raw = make_log(400, 400)
    here, there = write_pair(tmp_path, compact(raw, keep_tombstones=False), raw)
    early = {(Damage.TOMBSTONE_GONE_EARLY, Severity.WARNING)}
    assert kinds(findings_of("compaction", here, against=there)) == early


def test_replicas_without_checkpoints_may_be_cleaned_differently(tmp_path: Path) -> None:
    raw = make_log()
    here, there = write_pair(tmp_path, raw, compact(raw, horizon_ms=HORIZON_MS))
    for root in (here, there):
        for file in root.glob("*-checkpoint"):
            file.unlink()
    assert kinds(audited("replicas", here, there)) == set()
    assert kinds(verified(here, there)) == set()


def test_cleaner_point_above_the_high_watermark_of_another_replica_passes(tmp_path: Path) -> None:
    raw = make_log()
    cleaned = compact(raw, horizon_ms=HORIZON_MS)
    here, there = write_pair(tmp_path, cleaned, replace(raw, high_watermark=150))
    for pair in ((here, there), (there, here)):
        assert kinds(audited("replicas", *pair)) == set()
        assert kinds(verified(*pair)) == set()


def without_one_record(log: Log, number: int) -> Log:
    """Return an uncleaned log, of which one batch has lost its first record."""
    at = 0
    segments: list[tuple[int, list[Bat]]] = []
    for base, batches in log.segments:
        changed = list(batches)
        if at <= number < at + len(batches):
            victim = batches[number - at]
            changed[number - at] = replace(victim, records=victim.records[1:])
        at += len(batches)
        segments.append((base, changed))
    return replace(log, segments=segments)


def test_record_lost_from_a_batch_is_reported(tmp_path: Path) -> None:
    raw = make_log(400, 400)
    here, there = write_pair(tmp_path, without_one_record(raw, 3), raw)
    lost = {(Damage.LOST_KEY, Severity.ERROR)}
    for pair in ((here, there), (there, here)):
        assert kinds(audited("replicas", *pair)) == lost
        assert kinds(verified(*pair)) == lost
    rule = ("cleanup.policy=delete",)
    missing = (Damage.RECORDS_MISSING, Severity.ERROR)
    differs = (Damage.REPLICA_DIFFERS, Severity.ERROR)
    assert kinds(audited("integrity", here, rules=rule)) == {missing}
    assert kinds(verified(here, rules=rule)) == {missing}
    assert kinds(audited("replicas", here, there, rules=rule)) == {missing, differs}
    assert kinds(verified(here, there, rules=rule)) == {missing, differs}


def test_batch_lost_from_a_log_without_keys_is_a_warning(tmp_path: Path) -> None:
    raw = make_log()
    segments = [
        (
            base,
            [
                replace(batch, records=tuple(replace(each, key=None) for each in batch.records))
                for batch in batches
            ],
        )
        for base, batches in raw.segments
    ]
    raw = replace(raw, segments=segments)
    short = replace(raw, segments=[*segments[:1], (100, segments[1][1][1:]), *segments[2:]])
    here, there = write_pair(tmp_path, short, raw)
    gap = (Damage.OFFSET_GAP, Severity.WARNING)
    assert kinds(audited("integrity", here)) == {gap}
    assert kinds(verified(here)) == {gap}
    differs = (Damage.REPLICA_DIFFERS, Severity.WARNING)
    for pair in ((here, there), (there, here)):
        assert kinds(audited("replicas", *pair)) == {gap, differs}
        assert kinds(verified(*pair)) == {gap, differs}


def test_log_without_its_first_segments_is_reported(tmp_path: Path) -> None:
    raw = make_log()
    late = replace(raw, segments=raw.segments[2:], log_start=0)
    here, there = write_pair(tmp_path, late, raw)
    for rules, severity in (
        ((), Severity.NOTE),
        (("cleanup.policy=compact",), Severity.ERROR),
        (("cleanup.policy=compact,delete",), Severity.NOTE),
    ):
        parsed = replace(parse_rules(rules), now_ms=NOW_MS)
        for found in (
            audited("replicas", here, there, rules=rules),
            audited("replicas", there, here, rules=rules),
            verified(here, there, rules=rules),
            findings_of("compaction", here, against=there, rules=parsed),
        ):
            [later] = [each for each in found if each.damage is Damage.BEGINS_LATER]
            assert later.severity is severity
            assert later.offset == 200


def test_lost_end_of_a_replica_is_a_warning_unless_it_was_flushed(tmp_path: Path) -> None:
    raw = make_log()
    base, batches = raw.segments[-1]
    short = replace(raw, segments=[*raw.segments[:-1], (base, batches[:-1])], high_watermark=400)
    for recovery_point, severity in ((300, Severity.WARNING), (400, Severity.ERROR)):
        root = tmp_path / str(recovery_point)
        here, there = write_pair(root, replace(short, recovery_point=recovery_point), raw)
        for found in (audited("replicas", there, here), verified(there, here)):
            differs = [each for each in found if each.damage is Damage.REPLICA_DIFFERS]
            assert [(each.offset, each.severity) for each in differs] == [(395, severity)]


def test_end_counts_where_no_file_has_high_watermarks(tmp_path: Path) -> None:
    raw = make_log(400, 400)
    here, there = write_pair(tmp_path, without_one_record(raw, 3), raw)
    for root in (here, there):
        (root / "replication-offset-checkpoint").unlink()
    assert kinds(audited("replicas", here, there)) == {(Damage.LOST_KEY, Severity.WARNING)}


def diverged_pair(tmp_path: Path, high_watermark: int | None) -> tuple[Path, Path]:
    """Write a log with an end of an old epoch, and the log of the next leader."""
    raw = make_log()
    base, batches = raw.segments[-1]
    ours = [
        replace(each, epoch=1, records=each.records[:3], last=each.last - 2) for each in batches
    ]
    elected = replace(raw, segments=[*raw.segments[:-1], (base, spread(ours))])
    elected = replace(elected, epochs=[(0, 0), (1, base)], high_watermark=360)
    here, there = write_pair(tmp_path, replace(raw, high_watermark=high_watermark), elected)
    if high_watermark is None:
        (here / "replication-offset-checkpoint").unlink()
    return here, there


def spread(batches: list[Bat]) -> list[Bat]:
    """Return the batches with consecutive offsets."""
    moved, next_offset = [], batches[0].first
    for each in batches:
        records = tuple(
            replace(record, offset=next_offset + number)
            for number, record in enumerate(each.records)
        )
        moved.append(replace(each, first=next_offset, last=records[-1].offset, records=records))
        next_offset = records[-1].offset + 1
    return moved


@pytest.mark.parametrize("high_watermark", [None, 300])
def test_end_that_a_replica_must_still_truncate_passes(
    tmp_path: Path, high_watermark: int | None
) -> None:
    here, there = diverged_pair(tmp_path, high_watermark)
    for pair in ((here, there), (there, here)):
        for found in (audited("replicas", *pair), verified(*pair)):
            assert kinds(found) == set()
        against = findings_of("compaction", pair[0], against=pair[1])
        assert kinds(against) == set()
    notes = [each for each in audited("replicas", here, there) if each.offset == 300]
    assert [each.damage for each in notes] == [Damage.REPLICA_DIFFERS][: high_watermark is None]


def test_committed_offsets_in_another_epoch_are_an_error(tmp_path: Path) -> None:
    here, there = diverged_pair(tmp_path, 350)
    error = (Damage.REPLICA_DIFFERS, Severity.ERROR)
    for found in (audited("replicas", there, here), verified(there, here)):
        assert error in kinds(found)


def forgotten_pair(tmp_path: Path) -> tuple[Path, Path]:
    """Write a log that has kept diverged batches, and one with the batches of the next leader."""
    raw = make_log()
    *others, (base, batches), (last_base, last) = raw.segments
    newest = last_base, [replace(each, epoch=2) for each in last]
    elected = spread([replace(each, epoch=1, records=each.records[::-1]) for each in batches])
    kept = replace(raw, segments=[*others, (base, batches), newest])
    kept = replace(kept, epochs=[(0, 0), (2, last_base)])
    led = replace(raw, segments=[*others, (base, elected), newest])
    return write_pair(tmp_path, kept, replace(led, epochs=[(0, 0), (1, base), (2, last_base)]))


def test_diverged_batches_that_a_log_start_should_hide_are_a_warning(tmp_path: Path) -> None:
    """The leader's log began behind them, so that it had forgotten where its epoch began."""
    here, there = forgotten_pair(tmp_path)
    for pair in ((here, there), (there, here)):
        for found in (audited("replicas", *pair), verified(*pair)):
            assert kinds(found) == {(Damage.REPLICA_DIFFERS, Severity.WARNING)}
        found = findings_of("compaction", pair[0], against=pair[1])
        assert kinds(found) == {(Damage.REWRITTEN_BATCH, Severity.WARNING)}


@pytest.mark.parametrize("limit", [2, 200])
def test_cleaned_batches_that_a_log_start_should_hide_are_a_warning(
    tmp_path: Path, limit: int
) -> None:
    here, there = forgotten_pair(tmp_path)
    add_checkpoint(here / "cleaner-offset-checkpoint", "orders", 0, 300)
    rules = Rules(now_ms=NOW_MS, finding_limit=limit)
    found = findings_of("compaction", here, against=there, rules=rules)
    about_keys = {each.severity for each in found if each.check == "S9"}
    assert about_keys <= {Severity.NOTE, Severity.WARNING}


def test_diverged_batches_are_an_error_where_no_log_start_can_have_moved(tmp_path: Path) -> None:
    here, there = forgotten_pair(tmp_path)
    error = (Damage.REPLICA_DIFFERS, Severity.ERROR)
    assert error in kinds(verified(here, there, rules=("cleanup.policy=compact",)))
    (here / ".kafka_cleanshutdown").touch()
    assert error in kinds(verified(here, there))


@pytest.mark.parametrize("has_marker", [False, True], ids=["no marker", "no index entry"])
def test_record_of_a_transaction_that_only_one_replica_knows_as_aborted_passes(
    tmp_path: Path, has_marker: bool
) -> None:
    """A copy of a log, taken while its broker ran, may have the marker and an old index."""
    raw = make_log()
    base, batches = raw.segments[1]
    records = tuple(replace(each, key=b"aborted") for each in batches[-1].records)
    aborted = replace(batches[-1], records=records, producer_id=7, producer_epoch=0)
    aborted = replace(aborted, sequence=0, is_transactional=True)
    marker = Bat(
        200,
        200,
        (Rec(200, b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00", START_MS + 2000),),
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    newest = [(200, [marker])] if has_marker else []
    behind = replace(raw, segments=[raw.segments[0], (base, [*batches[:-1], aborted]), *newest])
    emptied = replace(aborted, records=())
    cleaned = replace(
        raw,
        segments=[raw.segments[0], (base, [*batches[:-1], emptied]), (200, [marker])],
        cleaner_point=200,
    )
    here, there = write_pair(tmp_path, behind, cleaned)
    entry = struct.pack(">hqqqq", 0, 7, 195, 200, 201)
    (there / "orders-0" / f"{200:020d}.txnindex").write_bytes(entry)
    for pair in ((here, there), (there, here)):
        assert kinds(audited("replicas", *pair)) == set()
        assert kinds(verified(*pair)) == set()


def keyed(batch: Bat, key: bytes) -> Bat:
    """Return the batch with another key of its first record."""
    return replace(batch, records=(replace(batch.records[0], key=key), *batch.records[1:]))


def with_one_key(log: Log) -> Log:
    """Return the log with the same key at the beginning of each segment."""
    segments = [(base, [keyed(first, b"key"), *rest]) for base, (first, *rest) in log.segments]
    return replace(log, segments=segments)


def lacking(log: Log, slot: int) -> list[tuple[int, list[Bat]]]:
    """Return the segments without the first record of the segment at `slot`."""
    segments = list(log.segments)
    base, (first, *rest) = segments[slot]
    segments[slot] = base, [replace(first, records=first.records[1:]), *rest]
    return segments


def test_older_value_stays_where_the_leader_had_removed_the_last_one(tmp_path: Path) -> None:
    reference = with_one_key(make_log(400, 400, tombstone_every=10**6))
    copied = [*lacking(reference, 1)[:2], (200, [])]
    log = replace(reference, segments=copied, cleaner_point=200)
    here, there = write_pair(tmp_path, log, reference)
    found = findings_of("compaction", here, against=there)
    assert kinds(found) == set()
    assert [each.offset for each in found if each.damage is Damage.STALE_VALUE] == [0]


@pytest.mark.parametrize(
    ("key", "severity"), [(b"other", Severity.NOTE), (b"twice", Severity.WARNING)]
)
def test_record_that_its_leader_would_have_removed_is_a_contradiction(
    tmp_path: Path, key: bytes, severity: Severity
) -> None:
    reference = with_one_key(make_log(400, 400, tombstone_every=10**6))
    base, batches = reference.segments[1]
    # A cleaner that removes the record at 100 for that at 200 also removes that at 120 for 180.
    other = {120: b"twice", 180: key}
    changed = [keyed(each, other.get(each.first, b"%d" % each.first)) for each in batches[1:]]
    segments = [reference.segments[0], (base, [batches[0], *changed]), *reference.segments[2:]]
    reference = replace(reference, segments=segments)
    log = replace(reference, segments=[*lacking(reference, 1)[:2], (200, [])], cleaner_point=200)
    here, there = write_pair(tmp_path, log, reference)
    found = findings_of("compaction", here, against=there)
    stale = [each for each in found if each.damage is Damage.STALE_VALUE and each.offset == 0]
    assert [each.severity for each in stale] == [severity]


@pytest.mark.parametrize(
    ("key", "severity"), [(b"other", Severity.NOTE), (b"twice", Severity.WARNING)]
)
def test_lost_record_with_a_later_one_in_the_active_segment_is_a_note(
    tmp_path: Path, key: bytes, severity: Severity
) -> None:
    """The cleaner of its leader may have read that segment, and removed the record for it."""
    raw = make_log(400, 400, tombstone_every=10**6)
    # That cleaner would have removed the record at 210 for that at 290, too.
    keys = {100: b"key", 300: b"key", 210: b"twice", 290: key}
    segments = [
        (base, [keyed(each, keys[each.first]) if each.first in keys else each for each in batches])
        for base, batches in raw.segments
    ]
    reference = replace(raw, segments=segments)
    log = replace(reference, segments=lacking(reference, 1), cleaner_point=200)
    here, there = write_pair(tmp_path, log, reference)
    found = findings_of("compaction", here, against=there)
    lost = [each for each in found if each.damage is Damage.LOST_KEY]
    assert [(each.offset, each.severity) for each in lost] == [(100, severity)]


def test_retention_keeps_segments_above_the_high_watermark(tmp_path: Path) -> None:
    rules = ("retention.ms=1", "retention.bytes=1", "retention.slack.ms=0")
    log = make_log()
    late = {(Damage.KEPT_TOO_LONG, Severity.ERROR), (Damage.KEPT_TOO_MUCH, Severity.ERROR)}
    for high_watermark, expected in ((99, set()), (100, late)):
        root = tmp_path / str(high_watermark)
        replace(log, high_watermark=high_watermark).write(root)
        assert kinds(audited("retention", root, rules=rules)) == expected


def test_retention_stops_at_a_segment_that_a_cleaner_has_emptied(tmp_path: Path) -> None:
    log = make_log()
    (base, _), *others = log.segments
    replace(log, segments=[(base, []), *others]).write(tmp_path)
    rules = ("retention.ms=1", "retention.slack.ms=0")
    assert kinds(audited("retention", tmp_path, rules=rules)) == set()


def test_retention_does_not_count_a_preallocated_file(tmp_path: Path) -> None:
    log = make_log()
    log.write(tmp_path)
    *_, active = sorted((tmp_path / "orders-0").glob("*.log"))
    total = sum(path.stat().st_size for path in (tmp_path / "orders-0").glob("*.log"))
    with active.open("ab") as file:
        file.write(bytes(100_000))
    assert kinds(audited("retention", tmp_path, rules=(f"retention.bytes={total}",))) == set()


def test_follower_that_died_while_it_emptied_its_log_raises_no_error(tmp_path: Path) -> None:
    """Its leader had deleted all of the records, and the new segment may be preallocated."""
    raw = make_log()
    emptied = replace(raw, segments=[(0, [])], high_watermark=raw.end, recovery_point=raw.end)
    here, there = write_pair(tmp_path, emptied, raw)
    (here / "orders-0" / f"{0:020d}.log").write_bytes(bytes(1_000))
    for pair in ((here, there), (there, here)):
        for found in (audited("replicas", *pair), verified(*pair)):
            assert Damage.REPLICA_DIFFERS in {each.damage for each in found}
            assert {severity for _, severity in kinds(found)} == {Severity.WARNING}
    against = findings_of("compaction", here, against=there)
    assert (Damage.LOST_KEY, Severity.WARNING) in kinds(against)
    assert Severity.ERROR not in {each.severity for each in against}
    rules = replace(parse_rules(("cleanup.policy=delete",)), now_ms=NOW_MS)
    uncleaned = findings_of("compaction", here, against=there, rules=rules)
    assert (Damage.REWRITTEN_BATCH, Severity.WARNING) in kinds(uncleaned)
    assert Severity.ERROR not in {each.severity for each in uncleaned}
    assert kinds(verified(here)) == {(Damage.CHECKPOINT_BEYOND, Severity.WARNING)}
    assert kinds(audited("integrity", here)) == kinds(verified(here))


def test_the_metadata_log_of_a_kraft_broker_passes(tmp_path: Path) -> None:
    """Its control records are of the quorum, and belong to no transaction."""
    leader_change = Rec(0, bytes([0, 0, 0, 2]), b"\x00\x00", START_MS)
    batches = [
        Bat(0, 0, (leader_change,), epoch=1, is_control=True),
        Bat(1, 1, (Rec(1, None, b"a metadata record", START_MS),), epoch=1),
    ]
    for topic, expected in (
        ("__cluster_metadata", set()),
        ("orders", {(Damage.BAD_ATTRIBUTES, Severity.ERROR)}),
    ):
        root = tmp_path / topic
        log = Log(topic=topic, segments=[(0, batches)], epochs=[(1, 0)])
        directory = log.write(root)
        if topic != "orders":
            (directory / "quorum-state").write_text("{}")
        (directory / f"{2:020d}-{1:010d}.checkpoint").touch()
        assert kinds(audited("integrity", root)) == expected
        assert kinds(verified(root)) == expected
