import pytest

from ottla.cli.input_record import InputError
from ottla.cli.start_point import AtOffset, AtTime, Beginning, End, StartPoint, parse_start_point
from ottla.cli.text import plural, rate_text, readable, size_text, time_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (12_345_678, "12.3 MB"), (5e12, "5000.0 GB")],
)
def test_size_has_a_unit(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (-1, "none"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_860_800_123, "2026-01-31T12:00:00.123Z"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_time_is_iso_8601_within_the_calendar(timestamp_ms: int, text: str) -> None:
    assert time_text(timestamp_ms) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [(None, "null"), (b"", ""), ("größe".encode(), "größe"), (b"a\n\xff", "a\\n\\xff")],
)
def test_bytes_become_readable_text_on_one_line(data: bytes | None, text: str) -> None:
    assert readable(data) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (0, "record", "0 records"),
        (1_234, "entry", "1,234 entries"),
    ],
)
def test_noun_agrees_with_its_count(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text


def test_rate_text_has_volume_duration_and_rate() -> None:
    assert rate_text(1_000, 2_000_000, 0.5) == (
        "1,000 records, 2.0 MB in 0.50 s: 2,000 records/s, 4.0 MB/s"
    )


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("beginning", Beginning()),
        ("end", End()),
        ("17", AtOffset(17)),
        ("1970-01-01T00:00:01Z", AtTime(1_000)),
    ],
)
def test_start_point_is_a_word_an_offset_or_a_time(text: str, point: StartPoint) -> None:
    assert parse_start_point(text) == point


@pytest.mark.parametrize("text", ["-1", "start", "", "12h"])
def test_any_other_start_point_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="not beginning, end, an offset"):
        parse_start_point(text)


@pytest.mark.parametrize("text", [str(2**63), "9" * 5_000])
def test_offset_beyond_the_maximum_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="exceeds the maximum"):
        parse_start_point(text)
    assert parse_start_point(str(2**63 - 1)) == AtOffset(2**63 - 1)


def test_time_before_1970_is_rejected() -> None:
    with pytest.raises(InputError, match="before 1970"):
        parse_start_point("1969-12-31")
