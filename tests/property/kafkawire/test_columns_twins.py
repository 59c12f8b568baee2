"""The compiled and the plain loops of audits have the same rows, tables and refusals."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import columns_loops, key_hash, key_table_loops
from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.key_table_loops import KeyLimitError
from kafkawire.native import compiled
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder

_columns: Any = compiled("_columns")
if _columns is None:
    pytest.skip("the loops are not compiled", allow_module_level=True)

ALL_COLUMNS = sum(columns_loops.Column)
BASE_MS = 1_700_000_000_000
keys = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"a", b"b", b""]))
values = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(st.tuples(st.text(max_size=3), values), max_size=2)
records = st.lists(st.tuples(st.integers(0, 1000), keys, values, headers), min_size=1, max_size=12)


def section_of(rows: list[Any]) -> tuple[bytes, int]:
    builder = BatchBuilder()
    for time, key, value, pairs in rows:
        builder.append(BASE_MS + time, key, value, tuple(pairs))
    return bytes(builder.build())[BATCH_HEADER_BYTES:], len(rows)


def outcome(action: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except CorruptBatchError:
        return CorruptBatchError
    except KeyLimitError:
        return KeyLimitError


@given(st.binary(max_size=70))
def test_hashes_agree(key: bytes) -> None:
    assert _columns.hash_key(key) == key_hash.hash_key(key)


@given(records, st.binary(max_size=3), st.integers(0, 200))
def test_surveys_agree_even_on_damage(rows: list[Any], patch: bytes, at: int) -> None:
    section, count = section_of(rows)
    damaged = section[:at] + patch + section[at + len(patch) :]
    for data in (section, damaged):
        expected = outcome(columns_loops.survey_section, data, count, count - 1, BASE_MS)
        assert outcome(_columns.survey_section, data, count, count - 1, BASE_MS) == expected


def batch_of(rows: list[Any], base_offset: int, codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder(codec)
    for time, key, value, pairs in rows:
        builder.append(BASE_MS + time, key, value, tuple(pairs))
    return bytes(builder.build(base_offset, 3))


@given(
    st.lists(st.tuples(records, st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP])), max_size=4),
    st.integers(0, 400),
    st.binary(max_size=2),
    st.integers(0, 5),
)
def test_plain_batches_agree_even_on_damage(
    log: list[tuple[list[Any], Codec]], at: int, patch: bytes, limit: int
) -> None:
    whole = b"".join(batch_of(rows, 100 * at, codec) for at, (rows, codec) in enumerate(log))
    damaged = whole[:at] + patch + whole[at + len(patch) :]
    for data in (whole, damaged, whole[:at]):
        expected = columns_loops.read_plain_batches(memoryview(data), "f", 7, limit)
        assert _columns.read_plain_batches(memoryview(data), "f", 7, limit) == expected


@given(records, st.integers(0, 60), st.integers(0, 255))
def test_plain_batches_agree_on_any_header(rows: list[Any], at: int, value: int) -> None:
    data = bytearray(batch_of(rows, 5))
    data[at] = value
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    expected = columns_loops.read_plain_batches(memoryview(data), "f", 0, 1)
    assert _columns.read_plain_batches(memoryview(data), "f", 0, 1) == expected


@given(records, st.one_of(st.none(), st.just(77)), st.integers(0, ALL_COLUMNS))
def test_columns_agree(rows: list[Any], append_ms: int | None, mask: int) -> None:
    section, count = section_of(rows)
    taken = []
    for module in (columns_loops, _columns):
        columns = module.RecordColumns(mask)
        columns.append(section, count, 40, BASE_MS, append_ms)
        columns.append(section, count, 90, BASE_MS, append_ms)
        rows_and_bytes = columns.row_count, columns.span_bytes
        taken.append((*rows_and_bytes, columns.take(), columns.row_count, columns.take()))
    assert taken[0] == taken[1]


def test_refused_batch_leaves_the_columns_unchanged() -> None:
    section, count = section_of([(0, b"key", b"value", [])])
    for module in (columns_loops, _columns):
        columns = module.RecordColumns(ALL_COLUMNS)
        with pytest.raises(CorruptBatchError):
            columns.append(section[:-1], count, 0, BASE_MS, None)
        assert columns.row_count == 0


@given(
    st.lists(records, max_size=4),
    records,
    st.integers(1, 60),
    st.sampled_from([(0, 1), (0, 2), (1, 2)]),
    st.integers(0, 60),
    st.integers(0, 1),
    st.sampled_from([None, BASE_MS]),
)
def test_tables_agree(
    log: list[list[Any]],
    other: list[Any],
    limit: int,
    shard: tuple[int, int],
    point: int,
    late_ms: int,
    append_ms: int | None,
) -> None:
    answers = []
    for table_type in (key_table_loops.KeyTable, _columns.KeyTable):
        table = table_type(limit, *shard)
        told: list[Any] = []
        for number, rows in enumerate(log):
            section, count = section_of(rows)
            place = section, count, number * 20, BASE_MS
            told.append(outcome(table.note, *place, None, point, 3))
        if KeyLimitError not in told:
            section, count = section_of(other)
            told.append(
                table.match(section, count, 10, BASE_MS + late_ms, append_ms, 5, point, 30, 100)
            )
            told.append(table.unseen(3, 50))
            told.append([table.is_seen(key) for _, key, _, _ in other if key is not None])
            told += [table.key_count, table.record_count, table.repeat_count]
            told += [table.superseded_bytes, table.tombstone_count(), table.histogram()]
            told.append(table.heaviest(3))
            copy = table_type(limit)
            copy.load(table.export())
            told += [copy.key_count, copy.unseen(0, 2**62)]
        answers.append(told)
    assert answers[0] == answers[1]


def test_tables_agree_on_more_records_than_wait_for_their_slots() -> None:
    """The records contain numbers of one to seven bytes."""
    rows: list[Any] = [
        (number << (number % 36), b"%d" % (number % 37), None if number % 9 == 4 else b"v", [])
        for number in range(200)
    ]
    rows += [(0, b"long %d" % size, b"v" * size, []) for size in (63, 64, 8191, 8192, 1_048_576)]
    other = [row for number, row in enumerate(rows) if number % 11] + [(0, b"new", b"v", [])]
    answers = []
    for table_type in (key_table_loops.KeyTable, _columns.KeyTable):
        table = table_type(100)
        told: list[Any] = [table.note(*section_of(rows), 0, BASE_MS, None, 190, 300)]
        told.append(table.match(*section_of(other), 3, BASE_MS, None, 5, 150, 170, 300))
        told += [table.unseen(0, 2**62), table.superseded_bytes, table.record_count]
        answers.append(told)
    assert answers[0] == answers[1]
    assert min(len(answers[0][0]), len(answers[0][1])) > 64, "too few that wait"


@pytest.mark.parametrize("reserved", [0, 20_000, 30_000, 2**63])
def test_a_table_grows_far_beyond_its_first_size(reserved: int) -> None:
    rows: list[Any] = [(0, b"%d" % number, b"v", []) for number in range(30_000)]
    section, count = section_of(rows)
    tables = [key_table_loops.KeyTable(10**6), _columns.KeyTable(10**6)]
    for table in tables:
        table.reserve(reserved)
        table.note(section, count, 0, BASE_MS, None, 2**62)
        # Reserving less than it has changes nothing.
        table.reserve(1)
        assert table.key_count == 30_000
    assert sorted(tables[0].export()) == sorted(tables[1].export())


def test_the_hash_is_murmur3() -> None:
    """The value that mmh3's documentation gives for its 128-bit hash."""
    assert key_hash.hash_key(b"foo") == (-2129773440516405919, 9128664383759220103)
    assert key_hash.hash_key(b"") == (0, 0)
