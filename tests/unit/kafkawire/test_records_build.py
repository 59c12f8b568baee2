"""Batches built, compared with bytes laid out by hand."""

import pytest

from kafkawire.errors import EncodeError
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    BatchBuilder,
    Codec,
    TimestampType,
    crc_matches,
    read_header,
    read_records,
    recompress,
)
from tests.unit.kafkawire.batches import NOW_MS, RECORDS, batch_of

GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "00000045"  # length of the rest
    "00000005"  # leader epoch
    "02"  # magic
    "7cba4bfc"  # CRC-32C of the rest
    "0018"  # attributes: log append time, transactional
    "00000001"  # last offset delta
    "00000000000003e8"  # base timestamp
    "00000000000007d0"  # max timestamp
    "0000000000000102"  # producer id
    "0003"  # producer epoch
    "00000004"  # base sequence
    "00000002"  # records
    "16"  # record of 11 bytes
    "00"  # attributes
    "00"  # timestamp delta 0
    "00"  # offset delta 0
    "026b"  # key "k"
    "0276"  # value "v"
    "02"  # one header
    "0268"  # its key "h"
    "01"  # its value null
    "0e"  # record of 7 bytes
    "00"  # attributes
    "d00f"  # timestamp delta 1000
    "02"  # offset delta 1
    "01"  # key null
    "00"  # value empty
    "00"  # no header
)


def test_a_built_batch_has_kafkas_bytes() -> None:
    builder = BatchBuilder(
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=258,
        producer_epoch=3,
        base_sequence=4,
        is_transactional=True,
    )
    assert builder.append(1000, b"k", b"v", [("h", None)]) == 0
    assert builder.append(2000, None, b"") == 1
    assert builder.build(base_offset=7, leader_epoch=5) == GOLDEN


@pytest.mark.parametrize("codec", Codec)
def test_header_of_a_built_batch_matches_its_records(codec: Codec) -> None:
    batch = batch_of(codec=codec)
    header = read_header(batch)
    assert header.codec is codec
    assert header.size_bytes == len(batch)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    # The base is the first record's time, not the earliest.
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 5)
    assert crc_matches(memoryview(batch), header)


def test_builder_accepts_records_after_a_build() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"first")
    first = builder.build()
    builder.append(NOW_MS, None, b"second")
    assert [record.value for record in read_records(first)] == [b"first"]
    assert [record.value for record in read_records(builder.build())] == [b"first", b"second"]


def test_the_size_counts_the_header_and_every_record() -> None:
    builder = BatchBuilder()
    assert builder.size_bytes == BATCH_HEADER_BYTES
    for record in RECORDS:
        builder.append(*record)
    assert builder.size_bytes == len(builder.build())
    assert builder.record_count == 3


def test_full_batch_accepts_no_more_records() -> None:
    builder = BatchBuilder(limit_bytes=100)
    assert builder.append(NOW_MS, None, b"x" * 200) == 0, "the first record is always taken"
    size = builder.size_bytes
    assert builder.append(NOW_MS, None, b"") == -1
    assert (builder.size_bytes, builder.record_count) == (size, 1)


def test_a_batch_is_full_by_one_byte() -> None:
    """Each record takes 8 bytes here, so a batch of two has 77."""
    roomy, tight = BatchBuilder(limit_bytes=77), BatchBuilder(limit_bytes=76)
    for builder in (roomy, tight):
        builder.append(NOW_MS, None, b"x")
    assert roomy.append(NOW_MS, None, b"x") == 1
    assert tight.append(NOW_MS, None, b"x") == -1


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_like_object_is_accepted(kind: type[bytearray | memoryview]) -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, kind(b"key"), kind(b"value"), [("name", kind(b"header"))])
    assert read_records(builder.build())[0][2:] == (b"key", b"value", (("name", b"header"),))


def test_text_is_not_accepted_as_bytes() -> None:
    with pytest.raises(TypeError):
        BatchBuilder().append(NOW_MS, "key", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("timestamp_ms", [-2, 2**63 - 1, 2**70])
def test_an_impossible_timestamp_is_refused(timestamp_ms: int) -> None:
    builder = BatchBuilder()
    with pytest.raises(EncodeError, match=f"timestamp {timestamp_ms} is not within -1"):
        builder.append(timestamp_ms, None, b"")
    assert builder.record_count == 0


def test_a_record_may_have_no_timestamp() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, b"")
    builder.append(NOW_MS, None, b"")
    assert [record.timestamp_ms for record in read_records(builder.build())] == [-1, NOW_MS]


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(EncodeError, match="needs a record"):
        BatchBuilder().build()


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (BatchBuilder(is_transactional=True), "needs a producer id"),
        (BatchBuilder(producer_id=1, base_sequence=0), "needs an epoch, got -1"),
        (BatchBuilder(producer_id=1, producer_epoch=0), "needs a base sequence, got -1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_producer_fields_must_be_consistent(builder: BatchBuilder, message: str) -> None:
    builder.append(NOW_MS, None, b"")
    with pytest.raises(EncodeError, match=message):
        builder.build()


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompressed_batches_hold_the_same_records(source: Codec, target: Codec) -> None:
    batch = batch_of(codec=source)
    result = recompress(batch, target)
    header = read_header(result)
    assert header.codec is target
    assert crc_matches(memoryview(result), header)
    assert read_records(result) == read_records(batch)
    if source is target is Codec.NONE:
        assert result == batch


def test_recompressing_keeps_the_other_attributes() -> None:
    builder = BatchBuilder(
        producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True, codec=Codec.ZSTD
    )
    builder.append(NOW_MS, None, b"")
    header = read_header(recompress(builder.build(), Codec.GZIP, level=9))
    assert header.attributes == 0x10 | Codec.GZIP
    assert header.producer_id == 1


def test_compression_level_is_passed_to_the_codec() -> None:
    text = bytes(range(256)) * 40 + b"abcd" * 999
    sizes = []
    for level in (1, 9):
        builder = BatchBuilder(codec=Codec.GZIP, level=level)
        builder.append(NOW_MS, None, text)
        sizes.append(len(builder.build()))
    assert sizes[0] > sizes[1]
