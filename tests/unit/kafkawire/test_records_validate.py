"""Batches that a broker refuses, and Kafka's error codes for them."""

import struct
from collections.abc import Callable
from typing import Any

import cramjam
import pytest

from kafkawire import records_loops, records_validate
from kafkawire.compression import compress
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Budget,
    BudgetSpentError,
    Codec,
    RecordError,
    RecordsRejectedError,
    TimestampType,
    build_control_batch,
    crc_matches,
    read_header,
    set_log_append_time,
    validate_produced,
)
from kafkawire.records_control import ControlType
from tests.unit.kafkawire.batches import NOW_MS, RECORDS, batch_of, with_header, with_section

MINUTE_MS = 60_000
NO_LIMIT_MS = 2**63 - 1
KEYED = [record for record in RECORDS if record[1] is not None]


def validate(batch: bytes | bytearray, **changes: Any) -> BatchHeader:
    rules: dict[str, Any] = {
        "compacted": False,
        "max_batch_bytes": 10_000,
        "timestamp_type": TimestampType.CREATE_TIME,
        "now_ms": NOW_MS,
        "timestamp_before_max_ms": NO_LIMIT_MS,
        "timestamp_after_max_ms": NO_LIMIT_MS,
    }
    return validate_produced(memoryview(batch), **(rules | changes))


def refusal(batch: bytes | bytearray, **changes: Any) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        validate(batch, **changes)
    return refused.value.code


def replaced(batch: bytearray, position: int, data: bytes) -> bytearray:
    """Return `batch` with other bytes at `position` and the old checksum."""
    changed = bytearray(batch)
    changed[position : position + len(data)] = data
    return changed


@pytest.mark.parametrize("codec", Codec)
def test_valid_batch_is_accepted_unchanged(codec: Codec) -> None:
    batch = batch_of(codec=codec)
    before = bytes(batch)
    assert validate(batch) == read_header(before)
    assert batch == before


def test_batch_of_exactly_the_maximum_size_is_accepted() -> None:
    batch = batch_of()
    assert validate(batch, max_batch_bytes=len(batch))
    assert refusal(batch, max_batch_bytes=len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        pytest.param(lambda _: b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(lambda batch: batch[:11], ErrorCode.INVALID_RECORD, id="less than a length"),
        pytest.param(
            lambda batch: replaced(batch, 8, struct.pack(">i", 13)),
            ErrorCode.CORRUPT_MESSAGE,
            id="length of no format",
        ),
        pytest.param(
            lambda batch: replaced(batch, 8, struct.pack(">i", -1)),
            ErrorCode.CORRUPT_MESSAGE,
            id="negative length",
        ),
        pytest.param(lambda batch: batch[:16], ErrorCode.INVALID_RECORD, id="cut before magic"),
        pytest.param(
            lambda batch: replaced(batch, 16, b"\3"), ErrorCode.CORRUPT_MESSAGE, id="magic 3"
        ),
        pytest.param(
            lambda batch: replaced(batch, 16, b"\xff"), ErrorCode.CORRUPT_MESSAGE, id="magic -1"
        ),
        pytest.param(
            lambda batch: replaced(batch, 16, b"\1"), ErrorCode.INVALID_RECORD, id="magic 1"
        ),
        pytest.param(
            lambda batch: replaced(batch, 16, b"\0"), ErrorCode.INVALID_RECORD, id="magic 0"
        ),
        pytest.param(lambda batch: batch[:-1], ErrorCode.INVALID_RECORD, id="cut"),
        pytest.param(lambda batch: batch + batch, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(lambda batch: batch + b"x", ErrorCode.INVALID_RECORD, id="a byte behind it"),
        pytest.param(
            lambda batch: batch + bytes(12),
            ErrorCode.CORRUPT_MESSAGE,
            id="no batch behind it",
        ),
        pytest.param(
            lambda batch: replaced(batch, 7, b"\1"), ErrorCode.INVALID_RECORD, id="base offset 1"
        ),
        pytest.param(
            lambda batch: replaced(batch, 8, struct.pack(">i", 48))[:60],
            ErrorCode.CORRUPT_MESSAGE,
            id="less than a header",
        ),
        pytest.param(
            lambda batch: replaced(batch, 17, bytes(4)),
            ErrorCode.CORRUPT_MESSAGE,
            id="wrong checksum",
        ),
        pytest.param(
            lambda batch: replaced(batch, 70, b"\xff"),
            ErrorCode.CORRUPT_MESSAGE,
            id="damaged record",
        ),
        pytest.param(
            lambda batch: with_header(batch, attributes=5),
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            id="unknown codec",
        ),
        pytest.param(
            lambda batch: with_header(batch, last_offset_delta=-2),
            ErrorCode.INVALID_RECORD,
            id="negative delta",
        ),
        pytest.param(
            lambda batch: with_header(batch, record_count=0),
            ErrorCode.INVALID_RECORD,
            id="no record",
        ),
        pytest.param(
            lambda batch: with_header(batch, record_count=-3),
            ErrorCode.INVALID_RECORD,
            id="negative count",
        ),
        pytest.param(
            lambda batch: with_header(batch, record_count=4),
            ErrorCode.INVALID_RECORD,
            id="count is not the delta's",
        ),
        pytest.param(
            lambda batch: with_header(batch, producer_id=5, base_sequence=-1),
            ErrorCode.INVALID_RECORD,
            id="producer id without sequence",
        ),
        pytest.param(
            lambda batch: with_header(batch, attributes=0x08),
            ErrorCode.INVALID_TIMESTAMP,
            id="log append time",
        ),
        pytest.param(
            lambda _: build_control_batch(
                ControlType.COMMIT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            ),
            ErrorCode.INVALID_RECORD,
            id="control batch",
        ),
    ],
)
def test_a_bad_batch_gets_kafkas_code(
    damage: Callable[[bytearray], bytes | bytearray], code: ErrorCode
) -> None:
    assert refusal(damage(batch_of())) is code


def test_first_fault_in_kafkas_order_decides_the_code() -> None:
    """Kafka checks the base offset, then the size, then the checksum."""
    damaged = replaced(batch_of(), 17, bytes(4))
    assert refusal(damaged, max_batch_bytes=70) is ErrorCode.MESSAGE_TOO_LARGE
    shifted = replaced(damaged, 7, b"\1")
    assert refusal(shifted, max_batch_bytes=70) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            lambda section: section[:-1] + b"\2", id="a record that does not end at its end"
        ),
        pytest.param(lambda section: section[:-1], id="a record that is cut"),
        pytest.param(lambda section: section + b"\0", id="a byte behind the last record"),
        pytest.param(lambda _: b"", id="no byte"),
    ],
)
@pytest.mark.parametrize("codec", Codec)
def test_damage_under_a_good_checksum_is_found_record_by_record(
    damage: Callable[[bytes], bytes], codec: Codec
) -> None:
    section = damage(bytes(batch_of()[BATCH_HEADER_BYTES:]))
    batch = with_section(batch_of(codec=codec), compress(codec, section), 3)
    assert refusal(batch) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_data_that_does_not_decompress_is_refused(codec: Codec) -> None:
    batch = with_section(batch_of(codec=codec), b"\xff" * 40, 3)
    assert refusal(batch) is ErrorCode.INVALID_RECORD


def test_lz4_that_java_cannot_read_is_refused() -> None:
    batch = zeros(200_000, Codec.LZ4)
    assert validate(batch)
    linked = bytes(cramjam.lz4.compress(bytes(zeros(200_000, Codec.NONE)[BATCH_HEADER_BYTES:])))
    assert not linked[4] & 0x20, "the bit of independent blocks"
    with pytest.raises(ApiError, match="blocks depend on each other") as refused:
        validate(with_section(batch, linked, 1))
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_decompression_bomb_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_validate, "MAX_DECOMPRESSED_BYTES", 1_000_000)
    bomb = bytes(cramjam.zstd.compress(bytes(4_000_000)))
    batch = with_section(batch_of(codec=Codec.ZSTD), bomb, 3)
    with pytest.raises(ApiError, match="zstd data expands beyond 1000000 bytes") as refused:
        validate(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def zeros(size: int, codec: Codec) -> bytearray:
    """Return a batch of one record with `size` zeros."""
    return batch_of((NOW_MS, b"key", bytes(size), ()), codec=codec)


COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batch_costs_its_decompressed_size(codec: Codec) -> None:
    batch = zeros(5000, codec)
    budget = Budget(20_000, record_bytes=100)
    assert validate(batch, budget=budget)
    assert 5100 < 20_000 - budget.left_bytes - 16 * len(batch) < 5200
    budget = Budget(20_000, record_bytes=0)
    assert validate(batch, budget=budget)
    assert 5000 < 20_000 - budget.left_bytes < 5100


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batch_beyond_the_budget_is_neither_accepted_nor_refused(codec: Codec) -> None:
    batch = zeros(5000, codec)
    parts_bytes = 16 * len(batch)
    budget = Budget(parts_bytes + 4000)
    with pytest.raises(BudgetSpentError):
        validate(batch, budget=budget)
    assert budget.left_bytes == 0
    budget = Budget(parts_bytes + 5100, record_bytes=100)
    with pytest.raises(BudgetSpentError):
        validate(batch, budget=budget)
    assert budget.left_bytes == 0
    assert validate(batch, budget=Budget(5100, record_bytes=0))


def test_too_large_batch_does_not_spend_the_rest_of_the_budget() -> None:
    batch = zeros(5000, Codec.ZSTD)
    budget = Budget(16 * len(batch) - 1)
    with pytest.raises(BudgetSpentError) as caught:
        validate(batch, budget=budget)
    assert (caught.value.cost_bytes, budget.left_bytes) == (16 * len(batch), 16 * len(batch) - 1)
    with pytest.raises(BudgetSpentError):
        validate(batch, budget=Budget(-1))


def test_records_that_are_not_compressed_cost_by_their_number() -> None:
    budget = Budget(1000, record_bytes=300)
    assert validate(batch_of(), budget=budget)
    assert budget.left_bytes == 100
    with pytest.raises(BudgetSpentError):
        validate(batch_of(), budget=budget)


def test_a_count_that_the_bytes_cannot_hold_costs_nothing() -> None:
    lying = with_section(batch_of(), b"\0" * 20, 2**31 - 1)
    budget = Budget(1000, record_bytes=300)
    assert refusal(lying, budget=budget) is ErrorCode.INVALID_RECORD


def test_damaged_batch_leaves_budget_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(1 << 30)
    damaged = with_section(batch_of(codec=Codec.ZSTD), b"\xff" * 40, 3)
    assert refusal(damaged, budget=budget) is ErrorCode.INVALID_RECORD
    assert (1 << 30) - 1_000_000 < budget.left_bytes < 1 << 30
    monkeypatch.setattr(records_validate, "MAX_DECOMPRESSED_BYTES", 4000)
    budget = Budget(10_000, record_bytes=0)
    assert refusal(zeros(5000, Codec.ZSTD), budget=budget) is ErrorCode.INVALID_RECORD
    assert budget.left_bytes == 6000


def test_a_compacted_topic_needs_keys() -> None:
    with pytest.raises(RecordsRejectedError) as refused:
        validate(batch_of(), compacted=True)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert refused.value.record_errors == [RecordError(1, "no key, which a compacted topic needs")]
    assert refused.value.message == "record 1: no key, which a compacted topic needs"
    assert validate(batch_of(*KEYED), compacted=True).record_count == 2


def test_records_must_count_from_zero() -> None:
    section = bytearray(batch_of()[BATCH_HEADER_BYTES:])
    section[3] = 0x08
    batch = with_section(batch_of(), bytes(section), 3)
    with pytest.raises(RecordsRejectedError, match="record 0: offset delta 4, not 0") as refused:
        validate(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("timestamp_ms", "is_taken"),
    [
        (NOW_MS, True),
        (NOW_MS - MINUTE_MS, True),
        (NOW_MS - MINUTE_MS - 1, False),
        (NOW_MS + MINUTE_MS, True),
        (NOW_MS + MINUTE_MS + 1, False),
        (-1, True),
    ],
)
def test_create_time_must_be_near_the_brokers(timestamp_ms: int, is_taken: bool) -> None:
    batch = batch_of((timestamp_ms, b"key", None, ()))
    limits = {"timestamp_before_max_ms": MINUTE_MS, "timestamp_after_max_ms": MINUTE_MS}
    if is_taken:
        assert validate(batch, **limits)
    else:
        code = refusal(batch, **limits)
        assert code is ErrorCode.INVALID_TIMESTAMP
    by_broker = TimestampType.LOG_APPEND_TIME
    assert validate(batch, timestamp_type=by_broker, **limits)


def test_a_time_before_the_epoch_is_too_old() -> None:
    batch = with_header(batch_of((0, b"key", None, ())), base_timestamp_ms=-5)
    limits = {"timestamp_before_max_ms": MINUTE_MS, "timestamp_after_max_ms": MINUTE_MS}
    assert refusal(batch, **limits) is ErrorCode.INVALID_TIMESTAMP
    assert validate(batch)


def test_single_wrong_timestamp_decides_the_code() -> None:
    batch = batch_of((NOW_MS, None, None, ()), (NOW_MS + 2, b"key", None, ()))
    with pytest.raises(RecordsRejectedError) as refused:
        validate(batch, compacted=True, timestamp_after_max_ms=1)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.value.record_errors] == [0, 1]


def test_number_of_record_errors_is_limited() -> None:
    batch = batch_of(*[(NOW_MS, None, None, ())] * 500)
    with pytest.raises(RecordsRejectedError) as refused:
        validate(batch, compacted=True)
    assert [error.batch_index for error in refused.value.record_errors] == list(range(100))


MANY = [(NOW_MS, b"key", None, ())] * 10_000


def test_a_huge_batch_names_its_first_record_without_key() -> None:
    batch = batch_of(*MANY, (NOW_MS, None, None, ()), (NOW_MS, None, None, ()))
    with pytest.raises(RecordsRejectedError) as refused:
        validate(batch, compacted=True, max_batch_bytes=1 << 20)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert refused.value.record_errors == [
        RecordError(10_000, "no key, which a compacted topic needs")
    ]


def test_a_huge_batch_names_its_first_record_out_of_place() -> None:
    section = bytes(batch_of(*MANY, *MANY[:1])[BATCH_HEADER_BYTES:])
    first = section[: 1 + (section[0] >> 1)]
    batch = with_section(batch_of(), first * 10_001, 10_001)
    with pytest.raises(RecordsRejectedError) as refused:
        validate(batch, max_batch_bytes=1 << 20)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert refused.value.record_errors == [RecordError(1, "offset delta is not the index")]


@pytest.mark.parametrize("timestamp_ms", [NOW_MS - 7, NOW_MS + 7])
def test_a_huge_batch_with_a_wrong_time_gets_its_code(timestamp_ms: int) -> None:
    batch = batch_of(*MANY, (timestamp_ms, None, None, ()))
    limits = {"timestamp_before_max_ms": 5, "timestamp_after_max_ms": 5}
    code = refusal(batch, compacted=True, max_batch_bytes=1 << 20, **limits)
    assert code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_wrong_maximum_timestamp_is_corrected(codec: Codec) -> None:
    right = batch_of(codec=codec)
    wrong = with_header(right, max_timestamp_ms=NOW_MS + 999)
    header = validate(wrong)
    assert header.max_timestamp_ms == NOW_MS + 5
    assert wrong == right
    assert crc_matches(memoryview(wrong), header)


def test_the_brokers_own_time_needs_no_correction() -> None:
    batch = with_header(batch_of(), max_timestamp_ms=NOW_MS + 999)
    header = validate(batch, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert header.max_timestamp_ms == NOW_MS + 999
    set_log_append_time(memoryview(batch), NOW_MS)
    assert crc_matches(memoryview(batch), read_header(batch))


def test_a_large_batch_is_surveyed_as_a_small_one() -> None:
    headers = (("name", b"\xff"), ("\u20ac", None))
    batch = batch_of((NOW_MS, b"key", bytes(2 << 20), headers), (NOW_MS + 1, None, b"", ()))
    section = memoryview(batch)[BATCH_HEADER_BYTES:]
    survey = records_loops.survey_records(section, 2, NOW_MS)
    assert survey == (NOW_MS, NOW_MS + 1, 1, -1)
    with pytest.raises(CorruptBatchError):
        records_loops.survey_records(section[:-1], 2, NOW_MS)
