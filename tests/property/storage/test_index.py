"""Index lookups agree with a linear scan."""

import struct
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.ids import Offset
from kafkawire.sentinels import NO_TIMESTAMP
from storage.segment.offset_index import MAX_RELATIVE_OFFSET, IndexEntry, OffsetIndex
from storage.segment.time_index import TimeIndex, TimeIndexEntry

BASE = Offset(5_000)
TARGETS = st.one_of(st.integers(-10, 1_000), st.integers(-10, MAX_RELATIVE_OFFSET))


@st.composite
def offset_entries(draw: st.DrawFn) -> list[IndexEntry]:
    steps = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000)), max_size=80))
    entries: list[IndexEntry] = []
    relative, position = -1, -1
    for offset_step, position_step in steps:
        relative, position = relative + offset_step, position + position_step
        entries.append(IndexEntry(Offset(BASE + relative), position))
    return entries


@st.composite
def time_entries(draw: st.DrawFn) -> list[TimeIndexEntry]:
    steps = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), max_size=80))
    entries: list[TimeIndexEntry] = []
    timestamp_ms, relative = -1, 0
    for time_step, offset_step in steps:
        timestamp_ms, relative = timestamp_ms + time_step, relative + offset_step
        entries.append(TimeIndexEntry(timestamp_ms, Offset(BASE + relative)))
    return entries


@settings(max_examples=150, deadline=None)
@given(offset_entries(), st.lists(TARGETS, max_size=20), st.booleans())
def test_an_offset_lookup_agrees_with_a_linear_scan(
    entries: list[IndexEntry], targets: list[int], is_closed: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = OffsetIndex(Path(directory) / "x.index", BASE, 8 * 100)
        index.file.create()
        for entry in entries:
            index.append(*entry)
        if is_closed:
            index.file.finish()
        for target in targets:
            below = [entry for entry in entries if entry.offset <= BASE + target][-1:]
            assert index.lookup(Offset(BASE + target)) == (below or [IndexEntry(BASE, 0)])[0]
            # The minimum distance that the bound of the search relies on.
            within = [entry for entry in entries if 0 < entry.position <= target]
            last = within[-1] if within else None
            assert index.last_entry_in(0, max(0, target), 0) == last


@settings(max_examples=150, deadline=None)
@given(time_entries(), st.lists(st.integers(-2, 4_000), max_size=20), st.booleans())
def test_a_time_lookup_agrees_with_a_linear_scan(
    entries: list[TimeIndexEntry], targets: list[int], is_closed: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = TimeIndex(Path(directory) / "x.timeindex", BASE, 12 * 100)
        index.create()
        for entry in entries:
            index.maybe_append(*entry)
        if is_closed:
            index.file.finish()
        for target in targets:
            below = [entry for entry in entries if entry.timestamp_ms <= target][-1:]
            assert index.lookup(target) == (below or [TimeIndexEntry(NO_TIMESTAMP, BASE)])[0]


@settings(max_examples=100, deadline=None)
@given(offset_entries(), st.lists(st.tuples(TARGETS, st.integers(0, 5)), max_size=8))
def test_index_file_matches_memory_after_any_truncations(
    entries: list[IndexEntry], truncations: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = OffsetIndex(Path(directory) / "x.index", BASE, 8 * 200)
        index.file.create()
        model: list[IndexEntry] = []
        waiting = list(entries)
        for target, count in [*truncations, (MAX_RELATIVE_OFFSET, 80)]:
            index.truncate_to(Offset(BASE + target))
            model = [entry for entry in model if entry.offset < BASE + target]
            last = model[-1] if model else IndexEntry(Offset(BASE - 1), -1)
            fitting = [entry for entry in waiting if entry > last and entry.position > last[1]]
            for entry in fitting[:count]:
                index.append(*entry)
                model.append(entry)
        index.file.finish()
        stored = list(struct.iter_unpack(">ii", index.file.path.read_bytes()))
        assert stored == [(entry.offset - BASE, entry.position) for entry in model]
