"""Batches return the records that were put in, and other bytes raise only our errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.compression import compress, decompress
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    BatchBuilder,
    BatchHeader,
    Codec,
    TimestampType,
    assign_offsets,
    crc_matches,
    iterate_batches,
    read_control_batch,
    read_header,
    read_records,
    recompress,
    validate_produced,
    write_header,
)
from tests.property.kafkawire.record_strategies import calmly, damaged, record_lists, records
from tests.unit.kafkawire.batches import NOW_MS, Fields, batch_of

codecs = st.sampled_from(Codec)
MAGICS = {codec: compress(codec, b"")[:8] for codec in Codec}
REFUSALS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}


def validate(batch: bytes | bytearray) -> BatchHeader | ErrorCode:
    try:
        return validate_produced(
            memoryview(bytearray(batch)),
            compacted=False,
            max_batch_bytes=1 << 24,
            timestamp_type=TimestampType.CREATE_TIME,
            now_ms=NOW_MS,
            timestamp_before_max_ms=2**63 - 1,
            timestamp_after_max_ms=2**63 - 1,
        )
    except ApiError as refused:
        return refused.code


@calmly
@given(record_lists, codecs, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_records_of_a_built_batch_round_trip(
    appended: list[Fields], codec: Codec, base_offset: int, leader_epoch: int
) -> None:
    batch = batch_of(*appended, codec=codec)
    assert validate(batch) == read_header(batch)
    assign_offsets(memoryview(batch), base_offset, leader_epoch)
    header = read_header(batch)
    read = read_records(batch)
    assert [record[1:] for record in read] == appended
    assert [record.offset - base_offset for record in read] == list(range(len(appended)))
    assert header.max_timestamp_ms == max(record[0] for record in appended)
    assert (header.last_offset, header.leader_epoch) == (read[-1].offset, leader_epoch)
    assert crc_matches(memoryview(batch), header)


@calmly
@given(record_lists, codecs, codecs)
def test_recompression_changes_the_codec_alone(
    appended: list[Fields], source: Codec, target: Codec
) -> None:
    result = recompress(batch_of(*appended, codec=source), target)
    assert read_records(result) == read_records(batch_of(*appended))
    assert recompress(result, source) == batch_of(*appended, codec=source)


@calmly
@given(st.lists(records, min_size=1, max_size=20), st.integers(61, 400))
def test_a_limit_is_kept_except_for_the_first_record(
    appended: list[Fields], limit_bytes: int
) -> None:
    builder = BatchBuilder(limit_bytes=limit_bytes)
    taken = [record for record in appended if builder.append(*record) >= 0]
    batch = builder.build()
    assert len(batch) == builder.size_bytes
    assert len(batch) <= limit_bytes or len(taken) == 1
    assert [record[1:] for record in read_records(batch)] == taken


@calmly
@given(
    st.lists(st.tuples(st.lists(records, min_size=1, max_size=3), codecs), max_size=4), st.data()
)
def test_iteration_yields_every_complete_batch(
    contents: list[tuple[list[Fields], Codec]], data: st.DataObject
) -> None:
    batches = [bytes(batch_of(*appended, codec=codec)) for appended, codec in contents]
    whole = b"".join(batches)
    cut = data.draw(st.integers(0, len(whole)))
    expected, position = [], 0
    for batch in batches:
        position += len(batch)
        if position <= cut:
            expected.append(batch)
    assert [bytes(batch) for _, batch in iterate_batches(whole[:cut])] == expected


@calmly
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (
        read_header,
        read_records,
        read_control_batch,
        lambda data: [*iterate_batches(data)],
    ):
        try:
            read(data)
        except CorruptBatchError:
            continue
    outcome = validate(data)
    assert isinstance(outcome, BatchHeader) or outcome in REFUSALS


@calmly
@given(st.data(), st.lists(records, min_size=1, max_size=4), codecs)
def test_a_damaged_section_is_read_or_refused(
    data: st.DataObject, appended: list[Fields], codec: Codec
) -> None:
    """Checksum and length are correct, so that the damage reaches every reader."""
    batch = batch_of(*appended, codec=codec)
    section = data.draw(damaged(bytes(batch[BATCH_HEADER_BYTES:])))
    header = read_header(batch)._replace(batch_length=49 + len(section))
    batch[BATCH_HEADER_BYTES:] = section
    write_header(batch, header)
    outcome = validate(batch)
    try:
        read = read_records(batch)
    except CorruptBatchError:
        assert outcome is ErrorCode.INVALID_RECORD
    else:
        assert len(read) == header.record_count
        assert isinstance(outcome, BatchHeader) or outcome is ErrorCode.INVALID_RECORD


header_fields = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-128, 127),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
)


@calmly
@given(header_fields, st.data())
def test_headers_with_few_wrong_fields_are_read_or_refused(
    fields: tuple[int, ...], data: st.DataObject
) -> None:
    """Each field separately takes the generated value, under a correct checksum."""
    batch = batch_of()
    right = read_header(batch)
    wrong = data.draw(st.sets(st.sampled_from([0, 5, 6, 7, 8, 9, 10, 11, 12]), max_size=2))
    mixed = BatchHeader._make(
        fields[place] if place in wrong else value for place, value in enumerate(right)
    )
    write_header(batch, mixed)
    outcome = validate(batch)
    assert isinstance(outcome, BatchHeader) or outcome in REFUSALS
    try:
        read_records(batch, max_bytes=1000)
    except CorruptBatchError:
        return
    assert mixed.record_count in (0, 3)


@calmly
@given(codecs, st.binary(max_size=3000), st.integers(0, 3000))
def test_decompressed_data_is_complete_or_refused(
    codec: Codec, data: bytes, max_bytes: int
) -> None:
    packed = compress(codec, data)
    if len(data) <= max_bytes:
        assert decompress(codec, packed, max_bytes) == data
    else:
        with pytest.raises(CorruptBatchError, match="expands beyond"):
            decompress(codec, packed, max_bytes)


@calmly
@given(st.data(), codecs, st.binary(max_size=300))
def test_damaged_compressed_data_is_bounded(
    data: st.DataObject, codec: Codec, source: bytes
) -> None:
    packed = data.draw(damaged(compress(codec, source * 9)))
    assert size_or_refusal(codec, packed, 5000) <= 5000


@calmly
@given(st.sampled_from(Codec), st.binary(max_size=120))
def test_arbitrary_bytes_are_decompressed_or_refused(codec: Codec, data: bytes) -> None:
    assert size_or_refusal(codec, data, 5000) <= 5000
    assert size_or_refusal(codec, MAGICS[codec] + data, 5000) <= 5000


def size_or_refusal(codec: Codec, packed: bytes, max_bytes: int) -> int:
    """Return the size of the decompressed data, or -1 if it is refused properly."""
    try:
        return len(decompress(codec, packed, max_bytes))
    except CorruptBatchError:
        return -1
