"""Durations on the command line: `90s`, `1h30m`, `2d`, or ISO 8601 such as `PT1H30M` (decision)."""

import re
from typing import Final

UNITS_MS: Final = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
MAX_DURATION_MS: Final = 2**53
MAX_DIGITS: Final = 12
_SHORT: Final = re.compile(r"(?:[0-9]+(?:ms|[wdhms]))+")
_PART: Final = re.compile(r"([0-9]+)(ms|[wdhms])")
_ISO: Final = re.compile(
    r"P(?=.)(?:([0-9]+)D)?(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?"
)


def parse_duration_ms(text: str) -> int:
    """Return a duration in ms.

    Raises:
        ValueError: the text is not a duration, or is too long a time.
    """
    if _SHORT.fullmatch(text.lower()):
        parts = _PART.findall(text.lower())
    elif found := _ISO.fullmatch(text.upper()):
        parts = list(zip((each or "0" for each in found.groups()), "dhms", strict=True))
    else:
        raise ValueError(f"{text!r} is not a duration such as 90s, 1h30m, 2d or PT1H30M")
    if any(len(number) > MAX_DIGITS for number, _ in parts):
        raise ValueError(f"{text!r} is longer than the {MAX_DURATION_MS} ms that can be used")
    total_ms = sum(int(number) * UNITS_MS[unit] for number, unit in parts)
    if total_ms > MAX_DURATION_MS:
        raise ValueError(f"{text!r} is longer than the {MAX_DURATION_MS} ms that can be used")
    return total_ms
