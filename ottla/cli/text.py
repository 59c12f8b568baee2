"""How bytes, times and sizes are written for people and for programs. Decision: no I/O.

Keys and values are bytes. In JSON they are text when they are UTF-8, and otherwise base64 under a
name that says so, so that `ottla produce --json-lines` reads back what `ottla consume` wrote.
"""

import base64
import datetime
from collections.abc import Iterable
from typing import Final

NO_TIMESTAMP_MS: Final = -1
_MEGA: Final = 1_000_000
_KILO: Final = 1_000

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


def bytes_to_json(name: str, data: bytes | None) -> dict[str, JsonValue]:
    """Return `{name: text}`, or `{name_base64: ...}` when the bytes are no UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> JsonValue:
    """Return the headers in order: a key may stand several times."""
    return [{"key": key, **bytes_to_json("value", value)} for key, value in headers]


def readable(data: bytes | None) -> str:
    """Return the bytes as text on one line, with what cannot be shown escaped."""
    if data is None:
        return "null"
    return shown(data.decode("utf-8", errors="backslashreplace"))


def shown(text: str) -> str:
    """Return text on one line, with what a terminal would obey instead of show escaped.

    Anybody may name a group or a topic, and a name can hold escape sequences.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp in ISO 8601, UTC; the number itself when no calendar reaches it."""
    if timestamp_ms == NO_TIMESTAMP_MS:
        return "none"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_text(size_bytes: float) -> str:
    """Return a size with at most one decimal: `812 B`, `12.3 kB`, `1.2 GB` (powers of 1000)."""
    if size_bytes < _KILO:
        return f"{size_bytes:.0f} B"
    for unit in ("kB", "MB"):
        size_bytes /= _KILO
        if size_bytes < _KILO:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / _KILO:.1f} GB"


def rate_text(count: int, size_bytes: int, seconds: float) -> str:
    """Return one sentence about a transfer: how much, how long, how fast."""
    rate = f"{count / seconds:,.0f} records/s, {size_bytes / seconds / _MEGA:,.1f} MB/s"
    what = f"{plural(count, 'record')}, {size_text(size_bytes)}"
    return f"{what} in {seconds:.2f} s: {rate}"


def plural(count: int, noun: str) -> str:
    """Return `1 batch`, `2 batches`, `1,234 records`, `2 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
