"""Parser and writer of `server.properties`, in Java's format (decision).

Source: java.util.Properties.load, "line-oriented format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker.errors import ConfigError

ENCODING: Final = "latin-1"
_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS: Final = 4
_MEANINGFUL: Final = frozenset("\\#!=:")


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of `text`; the last value of a repeated key wins.

    Raises:
        ConfigError: a \\u escape lacks its four hexadecimal digits.
    """
    return dict(_split(line) for line in _logical_lines(text))


def format_properties(properties: Mapping[str, str]) -> str:
    """Return text in ASCII that `parse_properties`, and Java, read as `properties`."""
    return "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in properties.items())


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """Return the keys and values of `overrides`, each in the form "key=value".

    Raises:
        ConfigError: an override has no key or no "=".
    """
    result = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError("--override", override, "must have the form key=value")
        result[key.strip()] = value.strip()
    return result


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments; continuation lines are joined."""
    parts: list[str] = []
    for raw in _natural_lines(text):
        line = raw.lstrip(_BLANK)
        if not parts and (not line or line[0] in "#!"):
            continue
        if _is_continued(line):
            parts.append(line[:-1])
            continue
        yield "".join((*parts, line))
        parts.clear()
    if parts:
        yield "".join(parts)


def _natural_lines(text: str) -> list[str]:
    # str.splitlines() would also split at characters that Java keeps.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _is_continued(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split at the first "=", ":" or blank without a backslash before it."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    result: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "\\":
            result.append(text[position])
            position += 1
            continue
        code = text[position + 1 : position + 2]
        position += 2
        if code == "u":
            result.append(_unicode(text[position : position + _UNICODE_DIGITS]))
            position += _UNICODE_DIGITS
        else:
            result.append(_ESCAPES.get(code, code))
    # In Java, two escapes make one character beyond 16 bits.
    return "".join(result).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _escape(text: str) -> str:
    """Return the text with escapes in place of blanks, signs and all but ASCII."""
    return "".join(
        f"\\{each}"
        if each in _MEANINGFUL
        else each
        if " " < each <= "~"
        else "".join(f"\\u{unit:04x}" for unit in _utf_16(each))
        for each in text
    )


def _utf_16(character: str) -> Iterator[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))


def _unicode(digits: str) -> str:
    try:
        if len(digits) == _UNICODE_DIGITS:
            return chr(int(digits, 16))
    except ValueError:
        pass
    raise ConfigError("server.properties", f"\\u{digits}", "must have four hexadecimal digits")
