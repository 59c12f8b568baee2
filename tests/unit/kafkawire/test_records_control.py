"""Control batches: the markers at the end of a transaction."""

import pytest

from kafkawire.errors import CorruptBatchError
from kafkawire.records import (
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    build_control_batch,
    crc_matches,
    read_control_batch,
    read_header,
)
from tests.unit.kafkawire.batches import batch_of, with_section

SECTION_AFTER_HEADER = bytes.fromhex(
    "20"  # record of 16 bytes
    "000000"  # attributes, timestamp delta, offset delta
    "08"  # key of 4 bytes
    "0000"  # its version
    "0001"  # commit
    "0c"  # value of 6 bytes
    "0000"  # its version
    "00000007"  # coordinator epoch
    "00"  # no header
)


def marker_of(control_type: ControlType) -> bytearray:
    return build_control_batch(
        control_type,
        producer_id=9,
        producer_epoch=2,
        coordinator_epoch=7,
        timestamp_ms=123,
        base_offset=50,
        leader_epoch=3,
    )


def control_batch_of(key: bytes | None, value: bytes | None) -> bytearray:
    builder = BatchBuilder(producer_id=9, producer_epoch=2, is_control=True)
    builder.append(123, key, value)
    return builder.build()


def test_a_marker_has_kafkas_bytes() -> None:
    batch = marker_of(ControlType.COMMIT)
    header = read_header(batch)
    assert batch[61:] == SECTION_AFTER_HEADER
    assert header.attributes == 0x30
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch, header.record_count) == (50, 3, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, -1)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (123, 123)
    assert crc_matches(memoryview(batch), header)


@pytest.mark.parametrize("control_type", ControlType)
def test_a_marker_is_read_back(control_type: ControlType) -> None:
    assert read_control_batch(marker_of(control_type)) == EndTransactionMarker(control_type, 7)


def test_later_versions_may_add_fields() -> None:
    batch = control_batch_of(bytes.fromhex("00010000ffff"), bytes.fromhex("000200000008ffff"))
    assert read_control_batch(batch) == EndTransactionMarker(ControlType.ABORT, 8)


def test_unknown_control_records_are_skipped() -> None:
    assert read_control_batch(control_batch_of(bytes.fromhex("00000002"), None)) is None


def test_empty_control_batch_has_no_marker() -> None:
    assert read_control_batch(with_section(marker_of(ControlType.ABORT), b"", 0)) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, None, "needs 4 bytes, got None"),
        ("0000ff", "000000000000", "needs 4 bytes, got b'"),
        ("ffff0001", "000000000000", "control record of version -1"),
        ("00000001", "0000000000", "needs 6 bytes"),
        ("00000001", None, "needs 6 bytes, got None"),
        ("00000001", "ffff00000000", "marker of version -1"),
    ],
)
def test_damaged_markers_are_refused(key: str | None, value: str | None, message: str) -> None:
    batch = control_batch_of(
        None if key is None else bytes.fromhex(key),
        None if value is None else bytes.fromhex(value),
    )
    with pytest.raises(CorruptBatchError, match=message):
        read_control_batch(batch)


def test_a_users_batch_is_no_control_batch() -> None:
    with pytest.raises(CorruptBatchError, match="not a control batch"):
        read_control_batch(batch_of())
