"""Searches for records."""

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType
from ottla.client.record import ConsumerRecord
from ottla.console.records.payload import Form
from ottla.console.records.query import RecordQuery, Start, parse_record_query, parse_time


def record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord(
        "t", 0, Offset(0), 0, key, value, (), TimestampType.CREATE_TIME, LeaderEpoch(0)
    )


def test_newest_records_of_all_partitions_are_the_default() -> None:
    assert parse_record_query("t", {"partition": "all"}) == RecordQuery(topic="t")


def test_all_parameters_are_read() -> None:
    query = parse_record_query(
        "t",
        {
            "partition": "3",
            "from": "offset",
            "at": " 17 ",
            "key": "k",
            "value": "ä",
            "limit": "20",
            "form": "hex",
        },
    )
    assert query == RecordQuery(
        topic="t",
        partition=3,
        start=Start.OFFSET,
        at=17,
        key=b"k",
        value="ä".encode(),
        limit=20,
        form=Form.HEX,
    )
    assert query.is_filtered


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01 01:00:01+01:00", 1_000),
        ("1960-01-01", 0),
    ],
)
def test_times_are_iso_or_milliseconds(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms
    assert parse_record_query("t", {"from": "time", "at": text}).at == time_ms


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"partition": "x"}, "a partition is a number from 0, got 'x'"),
        ({"partition": "-1"}, "a partition is a number"),
        ({"from": "offset", "at": ""}, "an offset is a number from 0, got ''"),
        ({"from": "offset", "at": str(2**63)}, "an offset is a number"),
        ({"from": "time", "at": "yesterday"}, "a time looks like"),
        ({"from": "nowhere"}, "from must be one of newest, beginning, offset, time"),
        ({"form": "xml"}, "form must be one of auto"),
        ({"limit": "7"}, "limit must be one of 20, 50"),
        ({"key": "k" * 1_001}, "key has at most 1000 characters, got 1001"),
    ],
)
def test_invalid_parameters_are_refused(parameters: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_record_query("t", parameters)


@pytest.mark.parametrize(
    ("key", "value", "is_match"),
    [(b"xkx", b"v", True), (b"k", b"w", False), (None, b"v", False), (b"k", None, False)],
)
def test_both_parts_must_match(key: bytes | None, value: bytes | None, is_match: bool) -> None:
    assert RecordQuery(topic="t", key=b"k", value=b"v").matches(record(key, value)) is is_match


def test_without_a_filter_every_record_matches() -> None:
    query = RecordQuery(topic="t")
    assert query.matches(record(None, None))
    assert not query.is_filtered
