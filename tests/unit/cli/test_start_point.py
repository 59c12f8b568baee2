"""Exactly one argument names the place that offsets are reset to."""

import pytest

from ottla.cli.input_record import InputError
from ottla.cli.start_point import AtOffset, AtTime, End, ResetPoint, ShiftBy, parse_reset_point

NOW_MS = 10_000_000


@pytest.mark.parametrize(
    ("to", "shift_by", "by_duration", "expected"),
    [
        ("end", None, None, End()),
        ("7", None, None, AtOffset(7)),
        (None, -5, None, ShiftBy(-5)),
        (None, 0, None, ShiftBy(0)),
        (None, None, "1h", AtTime(NOW_MS - 3_600_000)),
        (None, None, "52w", AtTime(0)),
    ],
)
def test_one_argument_is_parsed(
    to: str | None, shift_by: int | None, by_duration: str | None, expected: ResetPoint
) -> None:
    assert parse_reset_point(to, shift_by, by_duration, NOW_MS) == expected


@pytest.mark.parametrize(
    ("to", "shift_by", "by_duration", "text"),
    [
        (None, None, None, "give one of"),
        ("end", 1, None, "give one of"),
        (None, 1, "1h", "give one of"),
        ("nowhere", None, None, "--to: 'nowhere' is not"),
        (None, None, "soon", "--by-duration: 'soon' is not"),
    ],
)
def test_other_arguments_are_refused(
    to: str | None, shift_by: int | None, by_duration: str | None, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        parse_reset_point(to, shift_by, by_duration, NOW_MS)
