"""Every kind of damage to an index is reported; both shapes of offset index are healthy."""

import struct
from dataclasses import replace

import pytest

from logcheck.finding import Damage, Severity
from logcheck.index_files import IndexBytes, IndexFiles, check_indexes
from logcheck.offset_index_check import PER_APPEND, PER_BATCH, read_offset_index
from logcheck.replica_files import SegmentFiles
from logcheck.segment_columns import SegmentColumns
from tests.unit.logcheck.partition_bytes import (
    BASE_OFFSET,
    FIRST_TIMESTAMP_MS,
    RECORDS_PER_BATCH,
    Reported,
    build_batch,
    build_batches,
    positions_of,
    segment_columns,
)

BATCHES = build_batches(6)
SEGMENT = segment_columns(BATCHES)
FILES = SegmentFiles(
    base_offset=BASE_OFFSET, log="log", size_bytes=0, index="index", timeindex="timeindex"
)
POSITIONS = positions_of(BATCHES)
LAST_RELATIVE = [number * RECORDS_PER_BATCH + RECORDS_PER_BATCH - 1 for number in range(6)]
NEWEST_MS = [FIRST_TIMESTAMP_MS + number * 10 + RECORDS_PER_BATCH - 1 for number in range(6)]

Entries = list[tuple[int, int]]
OFFSET_ENTRIES = [(LAST_RELATIVE[slot], POSITIONS[slot]) for slot in (1, 3, 4)]
TIME_ENTRIES = [(NEWEST_MS[slot], LAST_RELATIVE[slot]) for slot in (1, 3, 5)]


def pack(layout: str, entries: Entries) -> bytes:
    return b"".join(struct.pack(layout, *entry) for entry in entries)


def check_offsets(entries: Entries | bytes) -> tuple[Reported, str]:
    """Check an offset index; return the findings and its shape."""
    data = entries if isinstance(entries, bytes) else pack(">ii", entries)
    reported = Reported()
    shape = check_indexes(
        FILES, IndexBytes(data, None), SEGMENT, reported, is_active=False, is_strict=False
    )
    return reported, shape


def check_times(
    entries: Entries | bytes, segment: SegmentColumns = SEGMENT, *, is_active: bool = False
) -> list[Damage]:
    """Check a time index; return the kinds of its damage."""
    data = entries if isinstance(entries, bytes) else pack(">qi", entries)
    reported = Reported()
    check_indexes(
        FILES, IndexBytes(None, data), segment, reported, is_active=is_active, is_strict=False
    )
    return reported.damages


@pytest.mark.parametrize(
    ("entries", "shape"),
    [
        pytest.param(OFFSET_ENTRIES, PER_BATCH, id="per batch"),
        pytest.param(
            [(LAST_RELATIVE[2], POSITIONS[1]), (LAST_RELATIVE[5], POSITIONS[3])],
            PER_APPEND,
            id="per append",
        ),
        pytest.param(
            pack(">ii", OFFSET_ENTRIES) + bytes(10 * 1024 * 1024 - 24), PER_BATCH, id="padded"
        ),
    ],
)
def test_healthy_offset_index_has_a_shape_and_no_findings(
    entries: Entries | bytes, shape: str
) -> None:
    reported, found = check_offsets(entries)
    assert (reported.findings, found) == ([], shape)


def test_zeros_at_the_end_of_an_entry_are_not_padding() -> None:
    entries, reported = [(256, 1), (512, 65_536)], Reported()
    assert read_offset_index(pack(">ii", entries) + bytes(800), "f", reported) == entries
    assert read_offset_index(pack(">ii", entries), "f", reported) == entries
    assert reported.findings == []


def test_healthy_time_index_has_no_findings() -> None:
    assert check_times(TIME_ENTRIES) == []
    # The maximum of an active segment may follow, and its index is padded with zeros.
    assert check_times(pack(">qi", TIME_ENTRIES[:1]) + bytes(1200), is_active=True) == []


def with_second(entries: Entries, entry: tuple[int, int]) -> Entries:
    return [entries[0], entry, *entries[2:]]


INSIDE_A_BATCH = with_second(OFFSET_ENTRIES, (LAST_RELATIVE[3], POSITIONS[3] + 1))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(INSIDE_A_BATCH, Damage.INDEX_POSITION, id="inside a batch"),
        pytest.param(
            [*OFFSET_ENTRIES, (99, 2**30)], Damage.INDEX_POSITION, id="beyond the segment"
        ),
        pytest.param(
            with_second(OFFSET_ENTRIES, (LAST_RELATIVE[2], POSITIONS[3])),
            Damage.INDEX_OFFSET,
            id="an offset before the batch",
        ),
        pytest.param(
            [(LAST_RELATIVE[3], POSITIONS[1]), (LAST_RELATIVE[4], POSITIONS[3])],
            Damage.INDEX_OFFSET,
            id="an offset beyond the next entry",
        ),
        pytest.param(
            [*OFFSET_ENTRIES, (500, POSITIONS[5])],
            Damage.INDEX_OFFSET,
            id="an offset that does not exist",
        ),
        pytest.param(
            [OFFSET_ENTRIES[1], OFFSET_ENTRIES[0], OFFSET_ENTRIES[2]],
            Damage.INDEX_NOT_INCREASING,
            id="swapped entries",
        ),
        pytest.param([OFFSET_ENTRIES[0], *OFFSET_ENTRIES], Damage.INDEX_NOT_INCREASING, id="twice"),
        pytest.param(pack(">ii", OFFSET_ENTRIES)[:-3], Damage.INDEX_CUT, id="cut inside an entry"),
        pytest.param(
            [OFFSET_ENTRIES[0], (0, 0), OFFSET_ENTRIES[1]],
            Damage.INDEX_HOLE,
            id="an entry after zeros",
        ),
    ],
)
def test_damage_to_an_offset_index_is_reported(entries: Entries | bytes, expected: Damage) -> None:
    assert check_offsets(entries)[0].damages == [expected]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(
            [TIME_ENTRIES[1], TIME_ENTRIES[0], TIME_ENTRIES[2]],
            [Damage.TIME_NOT_INCREASING],
            id="swapped entries",
        ),
        pytest.param(
            with_second(TIME_ENTRIES, (NEWEST_MS[3] + 1, LAST_RELATIVE[3])),
            [Damage.TIME_MAXIMUM],
            id="a timestamp that no record has",
        ),
        pytest.param(
            with_second(TIME_ENTRIES, (NEWEST_MS[2], LAST_RELATIVE[3])),
            [Damage.TIME_MAXIMUM],
            id="not the newest so far",
        ),
        pytest.param(
            [*TIME_ENTRIES, (NEWEST_MS[5] + 5, 99)],
            [Damage.TIME_OFFSET],
            id="an offset that does not exist",
        ),
        pytest.param(TIME_ENTRIES[:2], [Damage.TIME_LAST_ENTRY], id="maximum is missing"),
        pytest.param(b"", [Damage.TIME_LAST_ENTRY], id="empty"),
        pytest.param(
            pack(">qi", TIME_ENTRIES)[:-1],
            [Damage.INDEX_CUT, Damage.TIME_LAST_ENTRY],
            id="cut inside an entry",
        ),
    ],
)
def test_damage_to_a_time_index_is_reported(
    entries: Entries | bytes, expected: list[Damage]
) -> None:
    assert check_times(entries) == expected


def test_timestamp_reached_before_its_entry_is_reported() -> None:
    batches = [build_batch(BASE_OFFSET), build_batch(BASE_OFFSET + RECORDS_PER_BATCH)]
    segment = segment_columns(batches)
    newest_ms = FIRST_TIMESTAMP_MS + RECORDS_PER_BATCH - 1
    assert check_times([(newest_ms, LAST_RELATIVE[0])], segment) == []
    assert check_times([(newest_ms, LAST_RELATIVE[1])], segment) == [Damage.TIME_OFFSET]


def test_position_of_a_damaged_entry_is_its_byte_in_the_file() -> None:
    (finding,) = check_offsets(INSIDE_A_BATCH)[0].findings
    assert (finding.position, finding.offset) == (8, BASE_OFFSET + LAST_RELATIVE[3])


def test_timestamp_zero_needs_no_entry_in_the_time_index() -> None:
    batches = [build_batch(BASE_OFFSET, timestamp_ms=0, count=1)]
    assert check_times([], segment_columns(batches)) == []
    assert check_times(bytes(12), segment_columns(batches)) == []


def test_first_time_index_entry_may_be_all_zero() -> None:
    batches = [
        build_batch(BASE_OFFSET, timestamp_ms=0, count=1),
        build_batch(BASE_OFFSET + 1, timestamp_ms=5, count=1),
    ]
    assert check_times([(0, 0), (5, 1)], segment_columns(batches)) == []
    assert check_times([(0, 0), (NEWEST_MS[5], LAST_RELATIVE[5])]) == [Damage.TIME_MAXIMUM]


def test_index_that_the_broker_cuts_during_the_read_is_read_again() -> None:
    whole, reported = pack(">ii", OFFSET_ENTRIES), Reported()
    reads = [whole + bytes(3), whole]
    files = IndexFiles(reported, lambda _: reads.pop(0))
    data = files.read(replace(FILES, timeindex=None))
    assert (data.offsets, reads) == (whole, [])


def test_partial_entry_of_the_active_segment_is_a_note() -> None:
    for is_active, severity in ((True, Severity.NOTE), (False, Severity.ERROR)):
        reported = Reported()
        data = IndexBytes(pack(">ii", OFFSET_ENTRIES)[:-3], None)
        check_indexes(FILES, data, SEGMENT, reported, is_active=is_active, is_strict=False)
        assert [(each.damage, each.severity) for each in reported.findings] == [
            (Damage.INDEX_CUT, severity)
        ]


@pytest.mark.parametrize(
    ("is_recovered", "severity"), [(True, Severity.NOTE), (False, Severity.ERROR)]
)
def test_unfinished_indexes_of_a_segment_in_recovery_are_notes(
    is_recovered: bool, severity: Severity
) -> None:
    reported = Reported()
    data = IndexBytes(None, pack(">qi", TIME_ENTRIES[:1]))
    IndexFiles(reported, lambda _: b"").check(
        replace(FILES, index=None), data, SEGMENT, is_active=False, is_recovered=is_recovered
    )
    assert [(each.damage, each.severity) for each in reported.findings] == [
        (Damage.INDEX_MISSING, severity),
        (Damage.TIME_LAST_ENTRY, severity),
    ]


def test_misleading_entry_of_a_segment_in_recovery_is_an_error() -> None:
    reported = Reported()
    data = IndexBytes(pack(">ii", [(LAST_RELATIVE[1], POSITIONS[2])]), None)
    IndexFiles(reported, lambda _: b"").check(
        FILES, data, SEGMENT, is_active=False, is_recovered=True
    )
    assert [(each.damage, each.severity) for each in reported.findings] == [
        (Damage.INDEX_OFFSET, Severity.ERROR)
    ]
