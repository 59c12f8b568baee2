"""The loops of compaction, plain and compiled: refused input, and the capacity of a map."""

from types import ModuleType

import pytest

from kafkawire import compaction_loops
from kafkawire.errors import CorruptBatchError
from kafkawire.native import compiled
from kafkawire.records_loops import RecordBuffer, read_rows

TWINS: list[ModuleType] = [compaction_loops, *filter(None, [compiled("_compaction")])]

SEED = b"sixteen bytes..."
FAR_MS = 2**63 - 2

pytestmark = pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)


def section_of(*keys: bytes | None, step_ms: int = 0) -> bytes:
    buffer = RecordBuffer()
    for number, key in enumerate(keys):
        buffer.append(number * step_ms, key, b"v")
    return buffer.records()


def test_map_needs_a_slot_and_a_complete_seed(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="needs a slot, not 0"):
        twin.OffsetMap(0, SEED)
    with pytest.raises(ValueError, match="has 16 bytes, not 3"):
        twin.OffsetMap(1, b"abc")


def test_full_map_accepts_only_known_keys(twin: ModuleType) -> None:
    offsets = twin.OffsetMap(2, SEED)
    assert [offsets.put(key, number) for number, key in enumerate([b"a", b"b", b"c", b"a"])] == [
        True,
        True,
        False,
        True,
    ]
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c")) == (3, 1, -1)
    assert (offsets.size, offsets.latest_offset) == (2, 3)


def test_indexing_stops_at_the_limit_or_where_no_slot_is_free(twin: ModuleType) -> None:
    data = section_of(b"a", None, b"b", b"c", b"a")
    limited, full = twin.OffsetMap(9, SEED), twin.OffsetMap(2, SEED)
    assert not twin.index_keys(data, 5, 100, 0, limited, 2)
    assert not twin.index_keys(data, 5, 100, 0, full, 9)
    for offsets in (limited, full):
        # The last offset put: the map covers no more than that.
        assert (offsets.size, offsets.latest_offset) == (2, 102)
    assert twin.index_keys(data, 5, 100, 103, twin.OffsetMap(2, SEED), 9)


def test_many_keys_are_distinguished(twin: ModuleType) -> None:
    offsets = twin.OffsetMap(5_000, SEED)
    for number in range(4_500):
        assert offsets.put(b"key-%d" % number, number)
    assert [offsets.get(b"key-%d" % number) for number in range(4_500)] == list(range(4_500))
    assert offsets.get(b"key-4500") == -1


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 300])
def test_every_byte_of_a_key_counts(twin: ModuleType, size: int) -> None:
    offsets = twin.OffsetMap(1_000, SEED)
    keys = [bytes(size)]
    for position in range(size):
        changed = bytearray(size)
        changed[position] = 1
        keys.append(bytes(changed))
    keys += [bytes(size + 1), bytes(size + 8)]
    for number, key in enumerate(keys):
        assert offsets.put(key, number)
    assert [offsets.get(key) for key in keys] == list(range(len(keys)))


def test_timestamp_beyond_64_bits_is_refused(twin: ModuleType) -> None:
    data = section_of(b"a", b"b", step_ms=1_000)
    nothing = twin.OffsetMap(1, SEED)
    with pytest.raises(CorruptBatchError, match="leaves 64 bits"):
        twin.choose_records(data, 2, 0, FAR_MS, None, nothing, False)
    with pytest.raises(CorruptBatchError, match="leaves 64 bits"):
        twin.rewrite_records(data, b"\1\1", FAR_MS, None, 0)
    with pytest.raises(CorruptBatchError, match="too far from its base"):
        twin.rewrite_records(data, b"\1\1", 5, None, -(2**63))


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_it_costs_memory(
    twin: ModuleType,
) -> None:
    data, nothing = section_of(b"a"), twin.OffsetMap(1, SEED)
    with pytest.raises(CorruptBatchError, match="cannot hold"):
        twin.choose_records(data, 2**60, 0, 0, None, nothing, False)


def test_last_record_of_each_key_is_chosen_and_copied(twin: ModuleType) -> None:
    buffer = RecordBuffer()
    for number, (key, value) in enumerate(
        [(b"a", b"1"), (None, b"2"), (b"b", None), (b"a", b"3"), (b"c", b"4")]
    ):
        buffer.append(100 + number, key, value)
    data = buffer.records()
    offsets = twin.OffsetMap(9, SEED)
    for key, offset in ((b"b", 12), (b"a", 13)):
        offsets.put(key, offset)
    choice = twin.choose_records(data, 5, 10, 100, None, offsets, False)
    # The last record lies beyond the range of the map.
    assert tuple(choice) == (b"\0\0\1\1\1", 3, True, 102, 104, 1)
    dropped = twin.choose_records(data, 5, 10, 100, None, offsets, True)
    assert tuple(dropped) == (b"\0\0\0\1\1", 2, False, 103, 104, 1)
    for append_ms, new_base_ms, times in (
        (None, 100, [102, 103, 104]),
        (None, 900, [102, 103, 104]),
        (500, 900, [500, 500, 500]),
    ):
        written = twin.rewrite_records(data, choice.kept, 100, append_ms, new_base_ms)
        rows = read_rows(written, 3, 10, new_base_ms, None, tuple, (), ())
        assert [row[0] for row in rows] == [12, 13, 14]
        assert [row[1] for row in rows] == times
        assert [row[3] for row in rows] == [None, b"3", b"4"]
