"""Every kind of damage to an index is reported; both shapes of offset index are healthy."""

import struct

import pytest

from logcheck.file_name import FileName, parse_file_name
from logcheck.finding import Damage, Finding
from logcheck.offset_index_check import PER_APPEND, PER_BATCH, read_offset_index
from logcheck.segment_columns import SegmentColumns
from ottla.cli.logs.dump import dump_index
from ottla.cli.logs.item import FindingItem, RowItem, Summary
from tests.unit.cli.logs.partition_bytes import (
    FIRST_TIMESTAMP_MS,
    RECORDS_PER_BATCH,
    build_batch,
    build_batches,
    positions_of,
    segment_columns,
)

BASE_OFFSET = 1_000
INDEX = "00000000000000001000.index"
TIME_INDEX = "00000000000000001000.timeindex"
BATCHES = build_batches(6)
SEGMENT = segment_columns(BATCHES)
POSITIONS = positions_of(BATCHES)
LAST_RELATIVE = [number * RECORDS_PER_BATCH + RECORDS_PER_BATCH - 1 for number in range(6)]
NEWEST_MS = [FIRST_TIMESTAMP_MS + number * 10 + RECORDS_PER_BATCH - 1 for number in range(6)]

OFFSET_ENTRIES = [(LAST_RELATIVE[slot], POSITIONS[slot]) for slot in (1, 3, 4)]
TIME_ENTRIES = [(NEWEST_MS[slot], LAST_RELATIVE[slot]) for slot in (1, 3, 5)]


def pack_index(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def pack_time_index(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def dump(
    data: bytes,
    file: str = INDEX,
    segment: SegmentColumns | None = SEGMENT,
    *,
    is_active: bool = False,
) -> tuple[list[Damage], Summary]:
    name = parse_file_name(file)
    assert isinstance(name, FileName)
    items = list(dump_index(data, file, name, segment, is_active=is_active))
    summary = items[-1]
    assert isinstance(summary, Summary)
    assert summary.counts["entry"] == sum(isinstance(item, RowItem) for item in items)
    return [item.finding.damage for item in items if isinstance(item, FindingItem)], summary


def test_healthy_indexes_have_no_findings() -> None:
    damages, summary = dump(pack_index(OFFSET_ENTRIES))
    assert (damages, summary.shape, summary.counts) == ([], PER_BATCH, {"entry": 3})
    assert dump(pack_time_index(TIME_ENTRIES), TIME_INDEX)[0] == []


def test_zero_padding_of_an_active_segment_is_healthy() -> None:
    padding = bytes(10 * 1024 * 1024 - 24)
    assert dump(pack_index(OFFSET_ENTRIES) + padding)[0] == []
    damages, summary = dump(
        pack_time_index(TIME_ENTRIES[:1]) + bytes(1200), TIME_INDEX, is_active=True
    )
    assert (damages, summary.counts) == ([], {"entry": 1})


def test_zeros_at_the_end_of_an_entry_are_not_padding() -> None:
    entries = [(256, 1), (512, 65_536)]
    assert read_offset_index(pack_index(entries) + bytes(800), "f", fail) == entries
    assert read_offset_index(pack_index(entries), "f", fail) == entries


def fail(finding: Finding) -> None:
    pytest.fail(str(finding))


def test_index_with_entries_per_append_is_healthy_and_its_shape_is_reported() -> None:
    per_append = [(LAST_RELATIVE[2], POSITIONS[1]), (LAST_RELATIVE[5], POSITIONS[3])]
    damages, summary = dump(pack_index(per_append))
    assert (damages, summary.shape) == ([], PER_APPEND)


def test_offset_beyond_the_next_entry_is_reported() -> None:
    entries = [(LAST_RELATIVE[3], POSITIONS[1]), (LAST_RELATIVE[4], POSITIONS[3])]
    assert dump(pack_index(entries))[0] == [Damage.INDEX_OFFSET]


def with_second(entries: list[tuple[int, int]], entry: tuple[int, int]) -> list[tuple[int, int]]:
    return [entries[0], entry, *entries[2:]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            pack_index(with_second(OFFSET_ENTRIES, (LAST_RELATIVE[3], POSITIONS[3] + 1))),
            [Damage.INDEX_POSITION],
            id="inside a batch",
        ),
        pytest.param(
            pack_index([*OFFSET_ENTRIES, (99, 2**30)]),
            [Damage.INDEX_POSITION],
            id="beyond the segment",
        ),
        pytest.param(
            pack_index(with_second(OFFSET_ENTRIES, (LAST_RELATIVE[2], POSITIONS[3]))),
            [Damage.INDEX_OFFSET],
            id="an offset before the batch",
        ),
        pytest.param(
            pack_index([*OFFSET_ENTRIES, (500, POSITIONS[5])]),
            [Damage.INDEX_OFFSET],
            id="an offset that does not exist",
        ),
        pytest.param(
            pack_index([OFFSET_ENTRIES[1], OFFSET_ENTRIES[0], OFFSET_ENTRIES[2]]),
            [Damage.INDEX_NOT_INCREASING],
            id="swapped entries",
        ),
        pytest.param(
            pack_index([OFFSET_ENTRIES[0], *OFFSET_ENTRIES]),
            [Damage.INDEX_NOT_INCREASING],
            id="twice",
        ),
        pytest.param(pack_index(OFFSET_ENTRIES)[:-3], [Damage.INDEX_CUT], id="cut inside an entry"),
        pytest.param(
            pack_index([OFFSET_ENTRIES[0], (0, 0), OFFSET_ENTRIES[1]]),
            [Damage.INDEX_HOLE],
            id="an entry after zeros",
        ),
    ],
)
def test_damage_to_an_offset_index_is_reported(data: bytes, expected: list[Damage]) -> None:
    assert dump(data)[0] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            pack_time_index([TIME_ENTRIES[1], TIME_ENTRIES[0], TIME_ENTRIES[2]]),
            [Damage.TIME_NOT_INCREASING],
            id="swapped entries",
        ),
        pytest.param(
            pack_time_index(with_second(TIME_ENTRIES, (NEWEST_MS[3] + 1, LAST_RELATIVE[3]))),
            [Damage.TIME_MAXIMUM],
            id="a timestamp that no record has",
        ),
        pytest.param(
            pack_time_index(with_second(TIME_ENTRIES, (NEWEST_MS[2], LAST_RELATIVE[3]))),
            [Damage.TIME_MAXIMUM],
            id="not the newest so far",
        ),
        pytest.param(
            pack_time_index([*TIME_ENTRIES, (NEWEST_MS[5] + 5, 99)]),
            [Damage.TIME_OFFSET],
            id="an offset that does not exist",
        ),
        pytest.param(
            pack_time_index(TIME_ENTRIES[:2]), [Damage.TIME_LAST_ENTRY], id="maximum is missing"
        ),
        pytest.param(b"", [Damage.TIME_LAST_ENTRY], id="empty"),
        pytest.param(
            pack_time_index(TIME_ENTRIES)[:-1],
            [Damage.INDEX_CUT, Damage.TIME_LAST_ENTRY],
            id="cut inside an entry",
        ),
    ],
)
def test_damage_to_a_time_index_is_reported(data: bytes, expected: list[Damage]) -> None:
    assert dump(data, TIME_INDEX)[0] == expected


def test_timestamp_reached_before_its_entry_is_reported() -> None:
    batches = [build_batch(BASE_OFFSET), build_batch(BASE_OFFSET + RECORDS_PER_BATCH)]
    newest_ms = FIRST_TIMESTAMP_MS + RECORDS_PER_BATCH - 1
    segment = segment_columns(batches)
    first, second = (newest_ms, LAST_RELATIVE[0]), (newest_ms, LAST_RELATIVE[1])
    assert dump(pack_time_index([first]), TIME_INDEX, segment)[0] == []
    assert dump(pack_time_index([second]), TIME_INDEX, segment)[0] == [Damage.TIME_OFFSET]


def test_time_index_of_an_active_segment_may_lack_the_maximum() -> None:
    assert dump(pack_time_index(TIME_ENTRIES[:1]), TIME_INDEX, is_active=True)[0] == []


def test_index_without_its_segment_is_reported() -> None:
    assert dump(pack_index(OFFSET_ENTRIES), segment=None)[0] == [Damage.SEGMENT_MISSING]
    assert dump(pack_time_index(TIME_ENTRIES), TIME_INDEX, None)[0] == [Damage.SEGMENT_MISSING]


def test_position_of_a_damaged_entry_is_its_byte_in_the_file() -> None:
    name = parse_file_name(INDEX)
    assert isinstance(name, FileName)
    data = pack_index(with_second(OFFSET_ENTRIES, (LAST_RELATIVE[3], POSITIONS[3] + 1)))
    items = dump_index(data, INDEX, name, SEGMENT, is_active=False)
    findings = [item.finding for item in items if isinstance(item, FindingItem)]
    assert [(f.position, f.offset) for f in findings] == [(8, BASE_OFFSET + LAST_RELATIVE[3])]


def test_index_with_a_malformed_name_is_reported() -> None:
    assert dump(b"", "7.index", SegmentColumns(0, "segment.log"))[0] == [Damage.FOREIGN_FILE]
