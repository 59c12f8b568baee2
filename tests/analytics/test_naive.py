"""The compaction audit agrees with a naive auditor on random logs with random violations."""

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import START_MS, Bat, Log, Rec

PER_BATCH = 4
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
Findings = set[tuple[str, int]]
"""Kind and offset of findings."""

values = st.sampled_from([None, b"", b"one", b"two"])
contents = st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=12, max_size=60)
edits = st.lists(
    st.tuples(
        st.sampled_from(["drop", "restore", "value", "key"]),
        st.integers(0, 1000),
        st.sampled_from([*KEYS, b"nobody's"]),
        values,
    ),
    max_size=4,
)


def batches_of(records: list[Rec], ranges: list[tuple[int, int]]) -> list[Bat]:
    """Return the records in batches with the given offsets, without empty batches."""
    made = []
    for first, last in ranges:
        own = tuple(record for record in records if first <= record.offset <= last)
        if own:
            horizon_ms = HORIZON_MS if any(record.value is None for record in own) else None
            made.append(Bat(first, last, own, horizon_ms=horizon_ms))
    return made


def naive_findings(raw: list[Rec], clean: list[Rec]) -> Findings:
    """Return the violations in `clean`, found by linear search."""
    last = {record.key: record for record in raw}
    by_key: dict[bytes | None, list[Rec]] = defaultdict(list)
    for record in clean:
        by_key[record.key].append(record)
    found: Findings = set()
    for key, records in by_key.items():
        found |= {("duplicate_key", record.offset) for record in records[:-1]}
        wanted = last.get(key)
        is_kept = wanted is not None and wanted.offset in {record.offset for record in records}
        for record in records:
            if wanted is None or (record.offset > wanted.offset and is_kept):
                found.add(("unknown_record", record.offset))
            elif record.offset == wanted.offset and record.value != wanted.value:
                found.add(("changed_value", record.offset))
            elif not is_kept:
                is_older = record.offset < wanted.offset
                found.add(("stale_value" if is_older else "moved_record", record.offset))
    for key, wanted in last.items():
        if not by_key[key]:
            kind = "lost_key" if wanted.value is not None else "tombstone_gone_early"
            found.add((kind, wanted.offset))
    return found


@settings(max_examples=60, deadline=None)
@given(contents, edits)
def test_compaction_audit_agrees_with_the_naive_auditor(
    content: list[tuple[bytes, bytes | None]],
    changes: list[tuple[str, int, bytes, bytes | None]],
) -> None:
    records = [
        Rec(offset, key, value, START_MS + offset) for offset, (key, value) in enumerate(content)
    ]
    end = len(records) - len(records) % PER_BATCH
    ranges = [(first, first + PER_BATCH - 1) for first in range(0, end, PER_BATCH)]
    until = ranges[-1][0]
    below, active = records[:until], records[until:end]
    last = {record.key: record.offset for record in below}
    kept = {record.offset: record for record in below if last[record.key] == record.offset}
    for kind, number, key, value in changes:
        old = below[number % len(below)]
        if kind == "restore":
            kept[old.offset] = old
        elif kind == "drop":
            kept.pop(old.offset, None)
        elif old.offset in kept:
            one = kept[old.offset]
            changed = (one.key, value) if kind == "value" else (key, one.value)
            kept[old.offset] = Rec(one.offset, *changed, one.timestamp_ms)
    clean = [kept[offset] for offset in sorted(kept)]
    with tempfile.TemporaryDirectory() as folder:
        tail = [Bat(first, last, tuple(active)) for first, last in ranges[-1:]]
        raw_batches = [
            Bat(first, last, tuple(records[first : last + 1])) for first, last in ranges[:-1]
        ]
        Log(segments=[(0, raw_batches), (until, tail)]).write(Path(folder) / "raw")
        log = Log(segments=[(0, batches_of(clean, ranges[:-1])), (until, tail)])
        log.cleaner_point = until
        log.write(Path(folder) / "clean")
        found = findings_of("compaction", Path(folder) / "clean", against=Path(folder) / "raw")
    assert {(each.damage, each.offset) for each in found} == naive_findings(below, clean)
