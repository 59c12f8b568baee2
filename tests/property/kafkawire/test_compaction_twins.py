"""The compiled and the plain compaction loops have the same result or error for any bytes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkawire import compaction_loops
from kafkawire.errors import WireError
from kafkawire.native import compiled
from kafkawire.records_loops import RecordBuffer, read_rows
from tests.property.kafkawire.record_strategies import calmly, damaged, record_lists, records
from tests.unit.kafkawire.batches import Fields

TWINS: list[ModuleType] = [compaction_loops, *filter(None, [compiled("_compaction")])]

SEED = b"sixteen bytes..."
keys = st.sampled_from([b"", b"a", b"b", b"ab", b"key of 8", b"a key of 16 byte", b"x" * 300])
times = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**42))
append_times = st.one_of(st.none(), st.integers(-1, 2**63 - 1))
# Few keys, so that records replace each other.
keyed = st.tuples(
    st.integers(0, 2**42),
    st.one_of(st.none(), keys),
    st.sampled_from([None, b"", b"v"]),
    st.just(()),
)
batches: Any = st.one_of(record_lists, st.lists(keyed, min_size=1, max_size=40), st.lists(records))


def outcome(call: Callable[..., object], *arguments: Any) -> Any:
    try:
        result = call(*arguments)
    except WireError as error:
        return type(error)
    return tuple(result) if isinstance(result, tuple) else result


def section_of(batch: list[Fields]) -> tuple[bytes, int]:
    buffer = RecordBuffer()
    for record in batch:
        buffer.append(*record)
    return buffer.records(), len(batch)


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, int]:
    drawn: list[Fields] = draw(batches)
    section, count = section_of(drawn)
    if draw(st.booleans()):
        section = draw(damaged(section))
        count += draw(st.sampled_from([0, 0, 0, 1, -1, 2**31]))
    return section, max(count, 0)


@calmly
@given(st.lists(st.tuples(keys, st.integers(0, 2**62))), st.integers(1, 8))
def test_both_maps_return_the_same_offsets(puts: list[tuple[bytes, int]], slot_count: int) -> None:
    answers = []
    model: dict[bytes, int] = {}
    for twin in TWINS:
        offsets = twin.OffsetMap(slot_count, SEED)
        answers.append([(offsets.put(*put), offsets.size, offsets.latest_offset) for put in puts])
        model = {}
        for key, offset in puts:
            if key in model or len(model) < slot_count:
                model[key] = offset
        assert {key: offsets.get(key) for key in model} == model
        assert offsets.get(b"never put") == -1
    assert answers[0] == answers[-1]
    assert not answers[0] or answers[0][-1][1] == len(model)


@calmly
@given(sections(), st.integers(0, 2**40), st.integers(0, 60), st.integers(0, 9), st.integers(1, 9))
def test_both_index_the_same(
    section: tuple[bytes, int], base_offset: int, skipped: int, limit: int, slot_count: int
) -> None:
    data, count = section
    answers = []
    for twin in TWINS:
        offsets = twin.OffsetMap(slot_count, SEED)
        answer = outcome(
            twin.index_keys, data, count, base_offset, base_offset + skipped, offsets, limit
        )
        found = [offsets.get(key) for key in (b"", b"a", b"b", b"ab", b"key of 8")]
        answers.append((answer, offsets.size, offsets.latest_offset, found))
        assert offsets.size <= min(limit, slot_count)
    assert answers[0] == answers[-1]


@calmly
@given(
    sections(),
    st.dictionaries(keys, st.integers(0, 60)),
    st.integers(-1, 80),
    times,
    append_times,
    st.booleans(),
)
def test_both_choose_and_rewrite_the_same(
    section: tuple[bytes, int],
    latest: dict[bytes, int],
    latest_offset: int,
    base_ms: int,
    append_ms: int | None,
    drops_tombstones: bool,
) -> None:
    data, count = section
    choices, rewritten = [], []
    for twin in TWINS:
        offsets = twin.OffsetMap(8, SEED)
        for key, offset in latest.items():
            offsets.put(key, offset)
        offsets.latest_offset = latest_offset
        choice = outcome(
            twin.choose_records, data, count, 0, base_ms, append_ms, offsets, drops_tombstones
        )
        choices.append(choice)
        if isinstance(choice, tuple):
            for new_base_ms in (base_ms, choice[3], 2**62):
                arguments = (data, choice[0], base_ms, append_ms, new_base_ms)
                rewritten.append(outcome(twin.rewrite_records, *arguments))
        else:
            rewritten.append(
                outcome(twin.rewrite_records, data, b"\1" * min(count, 99), 0, None, 5)
            )
    assert choices[0] == choices[-1]
    assert rewritten[: len(rewritten) // len(TWINS)] == rewritten[-len(rewritten) // len(TWINS) :]


@calmly
@given(batches, st.data(), st.integers(-1, 2**42), append_times)
def test_kept_records_are_unchanged(
    batch: list[Fields], data: st.DataObject, new_base_ms: int, append_ms: int | None
) -> None:
    """Timestamps, keys, values, headers and offsets of kept records survive a rewrite."""
    section, count = section_of(batch)
    kept = bytes(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    base_ms = batch[0][0] if batch else 0
    rows = read_rows(section, count, 7, base_ms, append_ms, tuple, (), ())
    expected = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
    for twin in TWINS:
        written = outcome(twin.rewrite_records, section, kept, base_ms, append_ms, new_base_ms)
        if isinstance(written, bytes):
            assert (
                read_rows(written, len(expected), 7, new_base_ms, None, tuple, (), ()) == expected
            )


@calmly
@given(st.binary(max_size=80), st.integers(0, 12))
def test_both_agree_about_arbitrary_bytes(section: bytes, count: int) -> None:
    choices = []
    for twin in TWINS:
        offsets = twin.OffsetMap(4, SEED)
        offsets.latest_offset = 2**62
        choices.append(outcome(twin.choose_records, section, count, 0, 0, None, offsets, False))
    assert choices[0] == choices[-1]
