"""Text and JSON forms of bytes, times, sizes and counts (decision).

Keys and values are bytes. JSON holds them as text if they are valid UTF-8, and otherwise as base64
in a field with the suffix `_base64`. `ottla produce --json-lines` accepts both, so that it can send
the output of `ottla consume` again.
"""

import base64
import datetime
import re
from collections.abc import Iterable
from typing import Final

NO_TIMESTAMP_MS: Final = -1
_MEGA: Final = 1_000_000
_KILO: Final = 1_000
_CONTROLS: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""DEL and the C1 control characters, marks of text direction, line separators, lone surrogates."""
_UNSAFE: Final = re.compile(rf"[\x00-\x08\x0b-\x1f]|{_CONTROLS.pattern}")
"""`_CONTROLS`, and the C0 control characters except tab and line feed."""

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


def bytes_to_json(name: str, data: bytes | None) -> dict[str, JsonValue]:
    """Return `{name: text}`, or `{name_base64: ...}` if the bytes are not valid UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> JsonValue:
    """Return the headers as a list in order, because a key may occur several times."""
    return [{"key": key, **bytes_to_json("value", value)} for key, value in headers]


def readable(data: bytes | None) -> str:
    """Return the bytes as text on one line, with unprintable bytes escaped."""
    if data is None:
        return "null"
    return shown(data.decode("utf-8", errors="backslashreplace"))


def shown(text: str) -> str:
    """Return the text on one line with unprintable characters escaped.

    Names of groups and topics are untrusted and can contain a terminal's escape sequences.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def shown_data(data: bytes) -> bytes:
    """Return bytes of any content as text for a terminal, with tabs and line feeds as they are.

    Bytes that are not UTF-8, control characters and marks of text direction are escaped.
    """
    text = data.decode("utf-8", errors="backslashreplace")
    return _UNSAFE.sub(lambda found: repr(found.group())[1:-1], text).encode()


def shown_json(document: str) -> str:
    """Return a JSON document with the control characters escaped that JSON allows in a string.

    It has the same meaning, but no character that begins a terminal's command or hides text.
    """
    if document.isascii() and "\x7f" not in document:
        return document
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", document)


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp in ISO 8601, UTC, or its number of ms if it is outside the calendar."""
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
    """Return one line with the volume, duration and rate of a transfer."""
    rate = f"{count / seconds:,.0f} records/s, {size_bytes / seconds / _MEGA:,.1f} MB/s"
    volume = f"{plural(count, 'record')}, {size_text(size_bytes)}"
    return f"{volume} in {seconds:.2f} s: {rate}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 batch`, `2 batches`, `1,234 records`, `2 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
