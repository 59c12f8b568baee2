"""Numbers, times and names on the pages."""

import pytest

from ottla.console.view.text import (
    byte_rate_text,
    count_text,
    duration_text,
    rate_text,
    size_text,
    time_text,
    visible,
    visible_lines,
)

THIN = "\u2009"
DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (485_123, "485 kB"),
        (8_800_000, "8.8 MB"),
        (64.7e9, "64.7 GB"),
        (2e18, "2000 PB"),
        (-1, DASH),
        (None, DASH),
    ],
)
def test_sizes_have_about_three_digits(size: float | None, text: str) -> None:
    assert size_text(size) == text.replace(" ", THIN)


def test_counts_have_groups_of_three_digits() -> None:
    assert count_text(1_234_567) == f"1{THIN}234{THIN}567"
    assert count_text(None) == DASH


def test_low_rates_have_a_decimal() -> None:
    assert [rate_text(each) for each in (None, 0, 0.25, 9.96, 1234)] == [
        *(DASH, "0", "0.2", "10.0", f"1{THIN}234")
    ]
    assert byte_rate_text(None) == DASH
    assert byte_rate_text(1_500) == f"1.5{THIN}kB/s"


def test_growth_of_a_log_that_shrinks_is_not_a_rate() -> None:
    assert byte_rate_text(-5.0) == DASH


def test_durations_have_one_unit() -> None:
    shown = [duration_text(each).replace(THIN, " ") for each in (0.4, 59, 60, 7200, 200_000)]
    assert shown == ["0 s", "59 s", "1 min", "2 h", "2 d"]


def test_times_are_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00.000"
    assert time_text(1_767_225_600_123) == "2026-01-01 00:00:00.123"
    assert time_text(None) == time_text(-1) == DASH
    assert time_text(2**62) == f"{2**62} ms"


def test_hidden_characters_become_visible() -> None:
    assert visible("plain näme <b>") == "plain näme <b>"
    assert visible("a\x1b[31mb\u202ec\u200bd\0\ud800") == (r"a\x1b[31mb\u202ec\u200bd\x00\ud800")
    assert visible_lines("a\tb\r\nc\u2028") == "a\tb\\r\nc\\u2028"


def test_spaces_stay() -> None:
    assert visible("a\u2009b") == "a\u2009b"
