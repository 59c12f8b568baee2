"""Record batches against Kafka itself: bytes that it built, and verdicts that it gave.

The golden file says how Kafka was asked. Where we refuse more than Kafka does on purpose
(`kafkawire.records_validate` lists it), the cases stand in test_records_validate.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire.errors import ApiError
from kafkawire.records import (
    BatchBuilder,
    Codec,
    TimestampType,
    assign_offsets,
    crc_matches,
    read_header,
    read_records,
    set_log_append_time,
    validate_produced,
)
from tests.unit.kafkawire.batches import NOW_MS

GOLDEN: dict[str, Any] = json.loads(
    Path(__file__).with_name("golden_record_batches.json").read_text(encoding="ascii")
)
VERDICTS: list[dict[str, Any]] = GOLDEN["verdicts"]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


RECORDS = [
    (
        timestamp_ms,
        unhex(key),
        unhex(value),
        tuple((name, unhex(header)) for name, header in headers),
    )
    for timestamp_ms, key, value, headers in GOLDEN["records"]
]


@pytest.mark.parametrize("built", GOLDEN["built"], ids=lambda built: built["codec"])
def test_kafkas_batches_are_read(built: dict[str, str]) -> None:
    batch = bytes.fromhex(built["batch"])
    header = read_header(batch)
    assert header.codec is Codec[built["codec"]]
    assert crc_matches(memoryview(batch), header)
    assert [record[1:] for record in read_records(batch)] == RECORDS


def test_our_batch_is_kafkas_byte_for_byte() -> None:
    builder = BatchBuilder(producer_id=4711, producer_epoch=3, base_sequence=12)
    for record in RECORDS:
        builder.append(*record)
    assert builder.build().hex() == GOLDEN["built"][0]["batch"]


@pytest.mark.parametrize(
    "verdict", VERDICTS, ids=lambda verdict: f"{verdict['case']}-{verdict['code']}"
)
def test_our_validation_agrees_with_kafka(verdict: dict[str, Any]) -> None:
    batch = bytearray.fromhex(verdict["batch"])
    timestamp_type = TimestampType(verdict["log_append_time"])
    rules: dict[str, Any] = {
        "compacted": verdict["compacted"],
        "max_batch_bytes": verdict["max_batch_bytes"],
        "timestamp_type": timestamp_type,
        "now_ms": NOW_MS,
        "timestamp_before_max_ms": verdict["before_max_ms"],
        "timestamp_after_max_ms": verdict["after_max_ms"],
    }
    if verdict["stored"] is None:
        with pytest.raises(ApiError) as refused:
            validate_produced(memoryview(batch), **rules)
        assert refused.value.code.name == verdict["code"]
        return
    validate_produced(memoryview(batch), **rules)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        set_log_append_time(memoryview(batch), NOW_MS)
    assign_offsets(memoryview(batch), 1000, 7)
    assert batch.hex() == verdict["stored"]


def test_the_verdicts_are_of_many_kinds() -> None:
    assert {verdict["code"] for verdict in VERDICTS} == {
        "NONE",
        "CORRUPT_MESSAGE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MESSAGE_TOO_LARGE",
    }
