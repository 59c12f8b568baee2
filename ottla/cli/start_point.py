"""Start points of a consumer: `beginning`, `end`, an offset, or a time (decision)."""

from dataclasses import dataclass
from typing import Final

from ottla.cli.duration import parse_duration_ms
from ottla.cli.input_record import InputError, parse_time_ms

MAX_OFFSET: Final = 2**63 - 1
MAX_OFFSET_DIGITS: Final = len(str(MAX_OFFSET))


@dataclass(frozen=True, slots=True)
class Beginning:
    """Start at the first existing record."""


@dataclass(frozen=True, slots=True)
class End:
    """Start behind the last record."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """Start at the same offset in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """Start at the first record of this timestamp or later."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """Move a committed offset by a number of records, back if it is negative."""

    count: int


StartPoint = Beginning | End | AtOffset | AtTime
ResetPoint = StartPoint | ShiftBy
"""The places that the committed offsets of a group can be set to."""


def parse_reset_point(
    to: str | None, shift_by: int | None, by_duration: str | None, now_ms: int
) -> ResetPoint:
    """Return the place that exactly one of the arguments names.

    Raises:
        InputError: none or several are given, or the text has none of its forms.
    """
    given = [each for each in (to, shift_by, by_duration) if each is not None]
    if len(given) != 1:
        raise InputError("give one of --to, --shift-by and --by-duration")
    if shift_by is not None:
        return ShiftBy(shift_by)
    if by_duration is not None:
        try:
            return AtTime(max(now_ms - parse_duration_ms(by_duration), 0))
        except ValueError as error:
            raise InputError(f"--by-duration: {error}") from None
    try:
        return parse_start_point(to or "")
    except InputError as error:
        raise InputError(f"--to: {error}") from None


def parse_start_point(text: str) -> StartPoint:
    """Return the start point that `text` names.

    Raises:
        InputError: the text has none of these forms, or its value is out of range.
    """
    if text == "beginning":
        return Beginning()
    if text == "end":
        return End()
    if text.isdecimal():
        offset = int(text) if len(text) <= MAX_OFFSET_DIGITS else MAX_OFFSET + 1
        if offset > MAX_OFFSET:
            raise InputError(f"offset {text} exceeds the maximum of {MAX_OFFSET}")
        return AtOffset(offset)
    try:
        timestamp_ms = parse_time_ms(text)
    except InputError:
        raise InputError(
            f"{text!r} is not beginning, end, an offset, or a time like 2026-01-31T12:00:00Z"
        ) from None
    if timestamp_ms < 0:
        raise InputError(f"{text!r} lies before 1970, the earliest possible timestamp")
    return AtTime(timestamp_ms)
