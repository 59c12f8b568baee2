"""Violations of compaction to plant into a compacted log, and the findings expected for them.

Each function takes the uncompacted log and its compacted twin. It returns the twin with one
violation, and the expected findings as (kind, offset) pairs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from tests.analytics.audited import NOW_MS
from tests.analytics.log_model import START_MS, Bat, Log, Rec, rebuild

Expected = set[tuple[str, int]]
Plant = Callable[[Log, Log], tuple[Log, Expected]]


def cleaned(log: Log) -> list[Bat]:
    return list(log.segments[0][1])


def pick(batches: Sequence[Bat], *, tombstone: bool = False) -> tuple[int, int]:
    """Return a batch in the middle and a record in it, which is a tombstone if asked for."""
    for number in range(len(batches) // 2, len(batches)):
        for index, record in enumerate(batches[number].records):
            if (record.value is None) == tombstone:
                return number, index
    raise AssertionError("the model log has no such record")


def with_records(batch: Bat, records: Sequence[Rec]) -> Bat:
    return replace(batch, records=tuple(records))


def without(batch: Bat, index: int) -> Bat:
    return with_records(batch, batch.records[:index] + batch.records[index + 1 :])


def drop_empty(batches: Sequence[Bat]) -> list[Bat]:
    return [batch for batch in batches if batch.records]


def lost_key(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, index = pick(batches)
    offset = batches[number].records[index].offset
    batches[number] = without(batches[number], index)
    return rebuild(log, drop_empty(batches)), {("lost_key", offset)}


def older_value_survives(raw: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, index = pick(batches)
    record = batches[number].records[index]
    old = earlier(raw, record)
    batches[number] = without(batches[number], index)
    return put_back(log, batches, old), {("stale_value", old.offset)}


def duplicate_key(raw: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, index = pick(batches)
    old = earlier(raw, batches[number].records[index])
    return put_back(log, batches, old), {("duplicate_key", old.offset)}


def earlier(raw: Log, record: Rec) -> Rec:
    """Return the previous record of the same key that has a value."""
    same = [
        each
        for batch in raw.batches
        for each in batch.records
        if each.key == record.key and each.offset < record.offset and each.value is not None
    ]
    return same[-1]


def put_back(log: Log, batches: Sequence[Bat], record: Rec) -> Log:
    """Return `log` with a record that compaction had removed, back in its batch."""
    kept = drop_empty(batches)
    first = record.offset - record.offset % 5
    own = [batch for batch in kept if batch.first == first]
    if own:
        records = sorted([*own[0].records, record], key=lambda each: each.offset)
        kept[kept.index(own[0])] = with_records(own[0], records)
    else:
        kept.append(Bat(first, first + 4, (record,)))
        kept.sort(key=lambda batch: batch.first)
    return rebuild(log, kept)


def change(log: Log, *kinds: str, tombstone: bool = False, **fields: Any) -> tuple[Log, Expected]:
    """Change `fields` of a record; findings of `kinds` are expected at its offset."""
    batches = cleaned(log)
    number, index = pick(batches, tombstone=tombstone)
    records = list(batches[number].records)
    offset = records[index].offset
    records[index] = replace(records[index], **fields)
    batches[number] = with_records(batches[number], records)
    return rebuild(log, batches), {(kind, offset) for kind in kinds}


def offsets_swapped(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number = next(
        n
        for n, batch in enumerate(batches)
        if len(batch.records) > 1 and None not in [each.value for each in batch.records]
    )
    one, two, *rest = batches[number].records
    swapped = [replace(two, offset=one.offset), replace(one, offset=two.offset), *rest]
    batches[number] = with_records(batches[number], swapped)
    return rebuild(log, batches), {("stale_value", one.offset), ("moved_record", two.offset)}


def tombstone_gone_early(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, index = pick(batches, tombstone=True)
    offset = batches[number].records[index].offset
    batches[number] = without(batches[number], index)
    return rebuild(log, drop_empty(batches)), {("tombstone_gone_early", offset)}


def tombstone_kept_late(_: Log, log: Log) -> tuple[Log, Expected]:
    """Set the horizon of one batch before the cleaning that set the horizon of another."""
    batches = cleaned(log)
    number, _index = pick(batches, tombstone=True)
    horizon_ms = NOW_MS - 3 * 86_400_000
    batches[number] = replace(batches[number], horizon_ms=horizon_ms)
    return rebuild(log, batches), {("tombstone_kept_late", batches[number].first)}


def horizon_missing(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number = next(slot for slot, each in enumerate(batches) if each.horizon_ms is not None)
    batches[number] = replace(batches[number], horizon_ms=None)
    return rebuild(log, batches), {("bad_attributes", batches[number].first)}


def horizon_unused(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, _index = pick(batches)
    horizon_ms = next(each.horizon_ms for each in batches if each.horizon_ms is not None)
    batches[number] = replace(batches[number], horizon_ms=horizon_ms)
    return rebuild(log, batches), {("bad_attributes", batches[number].first)}


def value_removed(_: Log, log: Log) -> tuple[Log, Expected]:
    changed, expected = change(log, "changed_value", value=None)
    number, _index = pick(cleaned(log))
    return changed, expected | {("bad_attributes", cleaned(log)[number].first)}


def horizon_in_future(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, _index = pick(batches, tombstone=True)
    batches[number] = replace(batches[number], horizon_ms=NOW_MS * 2)
    found = batches[number].first
    others = {batch.first for batch in batches if batch.horizon_ms is not None} - {found}
    late = {("tombstone_kept_late", first) for first in others}
    return rebuild(log, batches), {("horizon_in_future", found)} | late


def record_without_key(_: Log, log: Log) -> tuple[Log, Expected]:
    changed, expected = change(log, "lost_key", key=None)
    return changed, expected | {("no_key", offset - offset % 5) for _, offset in expected}


def active_rewritten(_: Log, log: Log) -> tuple[Log, Expected]:
    """Clean a batch of the active segment."""
    batches = list(log.segments[-1][1])
    batches[4] = without(batches[4], 0)
    offset = batches[4].first
    expected = {("cleaned_beyond_checkpoint", offset), ("records_missing", offset)}
    return rebuild(log, batches, len(log.segments) - 1), expected


def whole_batch_lost(_: Log, log: Log) -> tuple[Log, Expected]:
    batches = cleaned(log)
    number, _index = pick(batches)
    lost = {
        ("tombstone_gone_early" if record.value is None else "lost_key", record.offset)
        for record in batches[number].records
    }
    del batches[number]
    return rebuild(log, batches), lost


COMPACTION: Final[dict[str, Plant]] = {
    "a lost key": lost_key,
    "a batch of lost keys": whole_batch_lost,
    "an older value survives": older_value_survives,
    "a duplicate key": duplicate_key,
    "a changed value": lambda _, log: change(log, "changed_value", value=b"another value"),
    "a value turned into a tombstone": value_removed,
    "a changed timestamp": lambda _, log: change(log, "changed_timestamp", timestamp_ms=START_MS),
    "attributes of a record": lambda _, log: change(log, "changed_value", attributes=1),
    "a changed header": lambda _, log: change(log, "changed_value", headers=((b"h", b"v"),)),
    "a header on a tombstone": lambda _, log: change(
        log, "changed_value", tombstone=True, headers=((b"h", b"v"),)
    ),
    "a value turned empty": lambda _, log: change(log, "changed_value", value=b""),
    "a changed key": lambda _, log: change(log, "unknown_record", "lost_key", key=b"unheard-of"),
    "two records with swapped offsets": offsets_swapped,
    "a tombstone removed too early": tombstone_gone_early,
    "a tombstone kept too long": tombstone_kept_late,
    "a delete horizon in the future": horizon_in_future,
    "tombstones without a delete horizon, before others that have one (a warning)": horizon_missing,
    "a delete horizon in a batch that never had a tombstone": horizon_unused,
    "a record without a key": record_without_key,
    "a cleaned active segment": active_rewritten,
}
