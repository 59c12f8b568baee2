"""Markers are read as brokers read them, and each violation of their form is named."""

import pytest

from kafkawire.compression import Codec
from kafkawire.records import BatchBuilder, ControlType, EndTransactionMarker, write_header
from logcheck.marker import check_marker
from tests.unit.logcheck.partition_bytes import FIRST_TIMESTAMP_MS, header_of
from tests.unit.logcheck.producer_bytes import COORDINATOR_EPOCH, emptied, marker, sound

COMMIT_KEY, VALUE = "00000001", "000000000005"
TIMESTAMP_DELTA_POSITION = 63
COMMIT = EndTransactionMarker(ControlType.COMMIT, 5)


def control_batch(
    *records: tuple[str | None, str | None],
    headers: tuple[tuple[str, bytes], ...] = (),
    codec: Codec = Codec.NONE,
) -> bytearray:
    """Return a control batch of records with these keys and values in hexadecimal digits."""
    builder = BatchBuilder(codec=codec, producer_id=7, producer_epoch=0, is_control=True)
    for key, value in records:
        builder.append(
            FIRST_TIMESTAMP_MS,
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
            headers,
        )
    return builder.build()


@pytest.mark.parametrize("control_type", ControlType)
def test_marker_of_a_broker_has_no_fault(control_type: ControlType) -> None:
    expected = EndTransactionMarker(control_type, COORDINATOR_EPOCH)
    assert check_marker(sound(marker(9, control_type))) == (expected, None)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(control_batch((COMMIT_KEY, VALUE), headers=(("h", b""),)), id="header"),
        pytest.param(control_batch((COMMIT_KEY, VALUE), codec=Codec.GZIP), id="compressed"),
    ],
)
def test_marker_in_another_encoding_has_no_fault(batch: bytearray) -> None:
    assert check_marker(sound(batch)) == (COMMIT, None)


def test_marker_that_a_cleaner_emptied_has_no_fault() -> None:
    assert check_marker(sound(emptied(marker(9)))) == (None, None)


@pytest.mark.parametrize(
    ("key", "value", "expected", "found"),
    [
        (None, VALUE, "a key of 4 bytes", "0 bytes"),
        ("000000", VALUE, "a key of 4 bytes", "3 bytes"),
        ("ffff0001", VALUE, "version 0 of the key", "version -1"),
        ("00000002", VALUE, "an abort (0) or a commit (1)", "a control record of type 2"),
        (COMMIT_KEY, None, "a value of 6 bytes", "0 bytes"),
        (COMMIT_KEY, "0000000000", "a value of 6 bytes", "5 bytes"),
        (COMMIT_KEY, "ffff00000005", "version 0 of the value", "version -1"),
    ],
)
def test_malformed_marker_is_not_read(
    key: str | None, value: str | None, expected: str, found: str
) -> None:
    read, fault = check_marker(sound(control_batch((key, value))))
    assert read is None
    assert fault == (expected, found, False)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("00010001", VALUE, "versions 1 and 0, 4 and 6 bytes"),
        (COMMIT_KEY, "000200000005", "versions 0 and 2, 4 and 6 bytes"),
        ("00000001ff", VALUE, "versions 0 and 0, 5 and 6 bytes"),
        (COMMIT_KEY, "000000000005ffff", "versions 0 and 0, 4 and 8 bytes"),
    ],
)
def test_marker_of_a_newer_version_is_read(key: str, value: str, found: str) -> None:
    fault = ("version 0, 4 and 6 bytes", found, True)
    assert check_marker(sound(control_batch((key, value)))) == (COMMIT, fault)


def test_only_the_first_record_of_a_control_batch_is_read() -> None:
    batch = control_batch((COMMIT_KEY, VALUE), ("00000000", VALUE))
    fault = ("one record in a control batch", "2 records", False)
    assert check_marker(sound(batch)) == (COMMIT, fault)


def test_marker_with_an_impossible_timestamp_is_not_read() -> None:
    batch = control_batch((COMMIT_KEY, VALUE))
    batch[TIMESTAMP_DELTA_POSITION] = 2  # 1 ms, in zigzag encoding
    write_header(batch, header_of(batch)._replace(base_timestamp_ms=2**63 - 1, max_timestamp_ms=-1))
    fault = ("a marker", "a timestamp leaves 64 bits", False)
    assert check_marker(sound(batch)) == (None, fault)
