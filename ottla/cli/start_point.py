"""Where a consumer starts: `beginning`, `end`, an offset, or a time. Decision: no I/O."""

from dataclasses import dataclass
from typing import Final

from ottla.cli.input_record import InputError, parse_time_ms

MAX_OFFSET: Final = 2**63 - 1
MAX_OFFSET_DIGITS: Final = len(str(MAX_OFFSET))


@dataclass(frozen=True, slots=True)
class Beginning:
    """At the first record that exists."""


@dataclass(frozen=True, slots=True)
class End:
    """Behind the last record."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """At this offset of every partition that is read."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """At the first record that is not older."""

    timestamp_ms: int


StartPoint = Beginning | End | AtOffset | AtTime


def parse_start_point(text: str) -> StartPoint:
    """Return the starting point that `text` names.

    Raises:
        InputError: it is none of the forms.
    """
    if text == "beginning":
        return Beginning()
    if text == "end":
        return End()
    if text.isdecimal():
        offset = int(text) if len(text) <= MAX_OFFSET_DIGITS else MAX_OFFSET + 1
        if offset > MAX_OFFSET:
            raise InputError(f"offset {text} is beyond the largest there can be, {MAX_OFFSET}")
        return AtOffset(offset)
    try:
        timestamp_ms = parse_time_ms(text)
    except InputError:
        raise InputError(
            f"{text!r} is none of beginning, end, an offset, a time like 2026-01-31T12:00:00Z"
        ) from None
    if timestamp_ms < 0:
        raise InputError(f"{text!r} lies before 1970, when timestamps begin")
    return AtTime(timestamp_ms)
