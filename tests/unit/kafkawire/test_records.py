"""Record batches read and stamped, against bytes laid out by hand from the format's description."""

from typing import NamedTuple

import pytest

from kafkawire.errors import CorruptBatchError
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Codec,
    Record,
    TimestampType,
    assign_offsets,
    batch_size_at,
    crc_matches,
    iterate_batches,
    read_header,
    read_records,
    read_records_as,
    set_log_append_time,
)
from tests.unit.kafkawire.batches import NOW_MS, RECORDS, batch_of, with_header, with_section

GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "0000003e"  # length of the rest
    "00000005"  # leader epoch
    "02"  # magic
    "0d64f835"  # CRC-32C of the rest
    "0018"  # attributes: log append time, transactional
    "00000000"  # last offset delta
    "00000000000003e8"  # base timestamp
    "00000000000007d0"  # max timestamp
    "0000000000000102"  # producer id
    "0003"  # producer epoch
    "00000004"  # base sequence
    "00000001"  # records
    "18"  # record of 12 bytes
    "00"  # attributes
    "d00f"  # timestamp delta 1000
    "00"  # offset delta
    "026b"  # key "k"
    "0276"  # value "v"
    "02"  # one header
    "0268"  # its key "h"
    "01"  # its value null
)
GOLDEN_HEADER = BatchHeader(
    base_offset=7,
    batch_length=62,
    leader_epoch=5,
    magic=2,
    crc=0x0D64F835,
    attributes=0x18,
    last_offset_delta=0,
    base_timestamp_ms=1000,
    max_timestamp_ms=2000,
    producer_id=258,
    producer_epoch=3,
    base_sequence=4,
    record_count=1,
)


class Row(NamedTuple):
    topic: str
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


def test_golden_bytes_are_read() -> None:
    header = read_header(GOLDEN)
    assert header == GOLDEN_HEADER
    assert crc_matches(memoryview(GOLDEN), header)
    # The batch has log append time, so the timestamp of the record itself does not count.
    assert read_records(GOLDEN) == [Record(7, 2000, b"k", b"v", (("h", None),))]


def test_header_properties_derive_from_its_fields() -> None:
    assert GOLDEN_HEADER.size_bytes == len(GOLDEN)
    assert GOLDEN_HEADER.codec is Codec.NONE
    assert GOLDEN_HEADER.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert GOLDEN_HEADER.is_transactional
    assert not GOLDEN_HEADER.is_control
    longer = GOLDEN_HEADER._replace(last_offset_delta=4)
    assert (longer.last_offset, longer.next_offset) == (11, 12)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(-1, 5, -1), (0, 0, 0), (10, 5, 15), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 2, 1)],
)
def test_sequences_wrap_to_zero(
    base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    header = GOLDEN_HEADER._replace(
        base_sequence=base_sequence, last_offset_delta=last_offset_delta
    )
    assert header.last_sequence == last_sequence


def test_delete_horizon_is_stored_in_the_base_timestamp() -> None:
    assert GOLDEN_HEADER.delete_horizon_ms is None
    assert GOLDEN_HEADER._replace(attributes=0x40).delete_horizon_ms == 1000


def test_create_time_differs_per_record() -> None:
    create_time = with_header(bytearray(GOLDEN), attributes=0)
    assert read_records(create_time)[0].timestamp_ms == 2000
    assert read_records(with_header(create_time, base_timestamp_ms=1))[0].timestamp_ms == 1001


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back_as_they_were(codec: Codec) -> None:
    records = read_records(batch_of(codec=codec))
    assert [record.offset for record in records] == [0, 1, 2]
    assert [record[1:] for record in records] == RECORDS


def test_offsets_and_epoch_are_stamped_without_touching_the_checksum() -> None:
    batch = batch_of()
    before = bytes(batch)
    assign_offsets(memoryview(batch), 1 << 40, 9)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 9)
    assert crc_matches(memoryview(batch), header)
    assert batch[16:] == before[16:]
    assert batch[8:12] == before[8:12]
    assert [record.offset - (1 << 40) for record in read_records(batch)] == [0, 1, 2]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_replaces_every_timestamp(codec: Codec) -> None:
    batch = batch_of(codec=codec)
    set_log_append_time(memoryview(batch), NOW_MS + 77)
    header = read_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.codec is codec
    assert header.max_timestamp_ms == NOW_MS + 77
    assert crc_matches(memoryview(batch), header)
    assert {record.timestamp_ms for record in read_records(batch)} == {NOW_MS + 77}


def test_rows_of_the_callers_own_class_are_filled() -> None:
    rows = read_records_as(Row, GOLDEN, before=("topic",), after=(5,))
    assert rows == [Row("topic", 7, 2000, b"k", b"v", (("h", None),), 5)]
    assert type(rows[0]) is Row
    assert rows[0].leader_epoch == 5
    assert hash(rows[0]) == hash(tuple(rows[0]))
    assert read_records_as(tuple, GOLDEN, header=GOLDEN_HEADER) == [tuple(rows[0])[1:-1]]


def test_empty_batch_has_no_records_in_any_codec() -> None:
    empty = with_section(batch_of(), b"", record_count=0)
    emptied = with_header(empty, attributes=Codec.ZSTD, last_offset_delta=2)
    assert read_records(emptied) == []
    assert read_header(emptied).next_offset == 3


def test_records_with_gaps_keep_their_offsets() -> None:
    """Compaction leaves such batches: the offset delta 1 is missing."""
    whole = batch_of((NOW_MS, b"a", b"1", ()), (NOW_MS, b"b", b"2", ()), (NOW_MS, b"c", b"3", ()))
    section = bytes(whole[BATCH_HEADER_BYTES:])
    size = len(section) // 3
    holed = with_section(whole, section[:size] + section[2 * size :], record_count=2)
    holed = with_header(holed, base_offset=10, last_offset_delta=2)
    assert [(record.offset, record.key) for record in read_records(holed)] == [
        (10, b"a"),
        (12, b"c"),
    ]


def test_a_header_key_that_is_not_utf8_does_not_lose_the_record() -> None:
    section = bytes.fromhex("14 00 00 00 01 01 02 04 ff68 01")
    batch = with_section(batch_of(), section, record_count=1)
    assert read_records(batch)[0].headers == (("�h", None),)


def test_iteration_over_batches_ends_before_a_truncated_one() -> None:
    first, second = batch_of(), bytearray(GOLDEN)
    data = bytes(first + second)
    walked = list(iterate_batches(data + data[:40]))
    assert [header for header, _ in walked] == [read_header(first), GOLDEN_HEADER]
    assert [bytes(batch) for _, batch in walked] == [bytes(first), GOLDEN]
    assert [header for header, _ in iterate_batches(data[:-1])] == [read_header(first)]
    assert list(iterate_batches(data[:11])) == []


def test_iteration_over_batches_raises_at_invalid_bytes() -> None:
    with pytest.raises(CorruptBatchError, match="batch length 48 at position 76"):
        list(iterate_batches(bytes(batch_of(RECORDS[0])) + bytes(8) + b"\0\0\0\x30" + bytes(60)))
    with pytest.raises(CorruptBatchError, match="magic=1"):
        list(iterate_batches(with_header(batch_of(), magic=1)))


def test_the_size_of_a_batch_is_known_before_its_header_is_read() -> None:
    data = bytes(3) + GOLDEN
    assert batch_size_at(data, 3) == len(GOLDEN)
    assert batch_size_at(data[:-1], 3) is None
    assert batch_size_at(data[:14], 3) is None


@pytest.mark.parametrize(
    "change",
    [
        {"magic": 1},
        {"magic": 3},
        {"batch_length": 48},
        {"batch_length": -1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 2**31},
        {"last_offset_delta": -1},
        {"record_count": -1},
    ],
    ids=str,
)
def test_an_impossible_header_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(CorruptBatchError, match="impossible batch header at position 0"):
        read_header(with_header(batch_of(), **change))


def test_a_short_header_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="needs 61 bytes at position 14, 59 are there"):
        read_header(GOLDEN[:-1], 14)
    with pytest.raises(CorruptBatchError, match="0 are there"):
        read_header(b"", 5)


def test_wrong_checksum_is_detected() -> None:
    damaged = bytearray(GOLDEN)
    damaged[-1] ^= 1
    assert not crc_matches(memoryview(damaged), read_header(damaged))


def test_bytes_behind_the_batch_are_ignored() -> None:
    data = GOLDEN + b"more"
    assert crc_matches(memoryview(data), read_header(data))
    assert read_records(data) == read_records(GOLDEN)


def test_a_batch_that_is_cut_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="a batch of 74 bytes is cut at 73"):
        read_records(GOLDEN[:-1])


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="unknown codec 5"):
        read_records(with_header(batch_of(), attributes=5))


def test_a_count_that_the_bytes_cannot_hold_costs_nothing() -> None:
    huge = with_header(batch_of(), record_count=2**31 - 1, last_offset_delta=2**31 - 1)
    with pytest.raises(CorruptBatchError, match="cannot hold 2147483647 records"):
        read_records(huge)


def test_a_batch_may_not_expand_beyond_the_limit() -> None:
    batch = batch_of(codec=Codec.GZIP)
    assert len(read_records(batch, max_bytes=1000)) == 3
    with pytest.raises(CorruptBatchError, match="gzip data expands beyond 100 bytes"):
        read_records(batch, max_bytes=100)
