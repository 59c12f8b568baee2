"""Thousands of notes hide no error and no warning, in the audits and in `ottla logs verify`."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from logcheck import uniqueness
from logcheck.finding import Damage, Finding, Severity
from ottla.cli.logs.verify import verify_directories
from tests.analytics.audited import RULES, findings_of
from tests.analytics.histories.verdicts import verified
from tests.analytics.log_model import START_MS, Bat, Log, Rec
from tests.analytics.planter import segments

EXPLAINED = 1_100
"""Number of missing records that a cleaner of another replica may have removed."""
FURTHER = 2_000
"""Offset of the first later record of a key."""


def batches_of(keys: Iterable[tuple[int, str]], value: bytes | None = b"v") -> list[Bat]:
    """Return a batch for each offset and key."""
    return [
        Bat(offset, offset, (Rec(offset, key.encode(), value, START_MS + offset),))
        for offset, key in keys
    ]


def lacking(extra: Iterable[tuple[int, str]] = ()) -> tuple[Log, Log]:
    """Return a log that lacks all records below EXPLAINED, and its reference.

    The active segment of both has a later record of each key of the missing ones. `extra` is in
    the reference below FURTHER, instead of a filler with its own key.
    """
    own = dict(extra)
    old = batches_of((offset, f"k{offset}") for offset in range(EXPLAINED))
    middle = batches_of((offset, own.get(offset, f"m{offset}")) for offset in (*own, FURTHER - 1))
    new = batches_of((FURTHER + number, f"k{number}") for number in range(EXPLAINED))
    reference = Log(segments=[(0, [*old, *middle]), (FURTHER, new)])
    log = Log(segments=[(0, middle[len(own) :]), (FURTHER, new)], cleaner_point=FURTHER)
    return log, reference


def judged(tmp_path: Path, log: Log, reference: Log) -> dict[str, list[Finding]]:
    """Return the findings about missing records of each front end."""
    log.write(tmp_path / "log")
    reference.write(tmp_path / "reference")
    pair = tmp_path / "log", tmp_path / "reference"
    found = {
        "against": findings_of("compaction", pair[0], against=pair[1]),
        "replicas": findings_of("replicas", *pair),
        "replicas, swapped": findings_of("replicas", *reversed(pair)),
        "verify": verified(pair, RULES),
    }
    lost = {Damage.LOST_KEY, Damage.STALE_VALUE}
    return {way: [each for each in all_ if each.damage in lost] for way, all_ in found.items()}


def test_healthy_log_that_lacks_many_records_has_only_notes(tmp_path: Path) -> None:
    for way, found in judged(tmp_path, *lacking()).items():
        assert {each.severity for each in found} <= {Severity.NOTE}, way


def test_the_last_of_many_missing_records_is_found(tmp_path: Path) -> None:
    """It is an error against a reference; of two replicas, one may have cleaned further."""
    for way, found in judged(tmp_path, *lacking([(EXPLAINED, "lost")])).items():
        alarms = [each for each in found if each.severity is not Severity.NOTE]
        assert [each.offset for each in alarms] == [EXPLAINED], way
        assert way != "against" or alarms[0].severity is Severity.ERROR


def test_the_last_of_many_missing_records_is_a_warning(tmp_path: Path) -> None:
    """The cleaner that removed it had removed the record before, too."""
    log, reference = lacking([(EXPLAINED, "key")])
    twice = (FURTHER + EXPLAINED, "twice"), (FURTHER + EXPLAINED + 1, "twice")
    later = batches_of([*twice, (FURTHER + EXPLAINED + 2, "key")])
    pair = [
        replace(each, segments=[each.segments[0], (FURTHER, [*each.segments[1][1], *later])])
        for each in (log, reference)
    ]
    for way, found in judged(tmp_path, pair[0], pair[1]).items():
        warnings = [each.offset for each in found if each.severity is Severity.WARNING]
        assert warnings == [EXPLAINED], way


def test_records_below_the_log_start_hide_no_lost_record(tmp_path: Path) -> None:
    old = batches_of((offset, f"old{offset}") for offset in range(EXPLAINED))
    lost, kept = batches_of([(EXPLAINED, "lost"), (EXPLAINED + 1, "kept")])
    active = batches_of([(FURTHER, "active")])
    reference = Log(segments=[(0, [*old, lost, kept]), (FURTHER, active)])
    log = Log(
        segments=[(EXPLAINED, [kept]), (FURTHER, active)],
        cleaner_point=FURTHER,
        log_start=EXPLAINED,
    )
    for way, found in judged(tmp_path, log, reference).items():
        assert [each.offset for each in found] == [EXPLAINED], way


def test_both_front_ends_count_the_findings_that_they_do_not_list(tmp_path: Path) -> None:
    directory = lacking()[1].write(tmp_path)
    old = segments(directory)[0]
    damaged = range(0, EXPLAINED, 2)
    for number in damaged:
        batch = old.batches[number]
        old.batches[number] = bytes([*batch[:-1], batch[-1] ^ 1])
    old.save()
    [result] = verify_directories([tmp_path])
    found = [result.reported, findings_of("integrity", tmp_path)]
    for rows in found:
        rows = [row for row in rows if row.damage is Damage.BAD_CRC]
        assert len(rows) == RULES.finding_limit + 1
        assert sum(1 + row.more for row in rows) == len(damaged)
    assert result.unlisted["error"] == len(damaged) - RULES.finding_limit - 1


def test_records_of_one_replica_alone_hide_no_changed_value(tmp_path: Path) -> None:
    """Each cleaner may have removed tombstones that the other replica still has."""
    active = batches_of([(FURTHER, "again")])
    for name, first, value in (("one", 0, b"v"), ("two", 500, b"other")):
        tombstones = batches_of(((first + n, f"gone{first + n}") for n in range(500)), None)
        kept = batches_of([(EXPLAINED, "kept")], value)
        # The cleaner has rewritten this batch, and removed the record of the key `again`.
        old = [*tombstones, replace(kept[0], last=EXPLAINED + 1)]
        Log(segments=[(0, old), (FURTHER, active)], cleaner_point=FURTHER).write(tmp_path / name)
    for pair in (("one", "two"), ("two", "one")):
        roots = [tmp_path / name for name in pair]
        for found in (findings_of("replicas", *roots), verified(roots, RULES)):
            changed = [each.offset for each in found if each.damage is Damage.CHANGED_VALUE]
            assert set(changed) == {EXPLAINED}, pair


def test_repeated_keys_below_the_log_start_hide_no_duplicate(tmp_path: Path) -> None:
    """No cleaner has to read records below the log start."""
    old = batches_of((offset, "old") for offset in range(EXPLAINED))
    twice = batches_of([(EXPLAINED, "twice"), (EXPLAINED + 1, "twice")])
    active = batches_of([(FURTHER, "active")])
    log = Log(
        segments=[(0, [*old, *twice]), (FURTHER, active)],
        cleaner_point=FURTHER,
        log_start=EXPLAINED,
    )
    found = findings_of("compaction", log.write(tmp_path).parent)
    duplicates = [each for each in found if each.damage is Damage.DUPLICATE_KEY]
    assert [each.offset for each in duplicates] == [EXPLAINED]


def test_repeated_keys_that_are_not_judged_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uniqueness, "MAX_SUSPECTS", 2)
    cleaned = batches_of((offset, "again") for offset in range(10))
    log = Log(
        segments=[(0, cleaned), (FURTHER, batches_of([(FURTHER, "active")]))], cleaner_point=FURTHER
    )
    found = findings_of("compaction", log.write(tmp_path).parent)
    [more] = [each for each in found if each.damage is Damage.MORE_DUPLICATE_KEYS]
    assert (more.found.split()[0], more.severity) == ("7", Severity.WARNING)
