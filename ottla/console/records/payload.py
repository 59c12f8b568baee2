"""Keys, values and headers of records as readable text (decision)."""

import enum
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.console.view.text import visible_lines

MAX_SHOWN_BYTES: Final = 64 * 1024
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Size of all bytes that one page shows."""
MIN_SHOWN_BYTES: Final = 128
MAX_INDENTATION: Final = 4
"""Characters that indentation adds to each character that may be shown."""
MAX_PREVIEW_CHARACTERS: Final = 160
MAX_DEPTH: Final = 100
HEX_COLUMNS: Final = 16
_INDENT: Final = "  "
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class Form(enum.StrEnum):
    """A form in which bytes can be shown. `AUTO` is JSON, text or hex, the first that fits."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes in a form that fits them, which is never `AUTO`."""

    text: str
    form: Form
    size_bytes: int
    shown_bytes: int
    """Number of the first bytes that the text shows."""
    is_null: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the text shows only the first bytes."""
        return self.shown_bytes < self.size_bytes

    @property
    def preview(self) -> str:
        """The beginning of the text on one line."""
        return shortened(" ".join(self.text[: 4 * MAX_PREVIEW_CHARACTERS].split()))


def shortened(line: str) -> str:
    """Return the beginning of a line."""
    if len(line) <= MAX_PREVIEW_CHARACTERS:
        return line
    return line[:MAX_PREVIEW_CHARACTERS] + "…"


def shown_bytes_of(sizes: Collection[int], room_bytes: int = MAX_PAGE_BYTES) -> int:
    """Return the number of bytes to show of each payload of a page, by the sizes of all."""
    most = MAX_SHOWN_BYTES
    while most > MIN_SHOWN_BYTES and sum(min(size, most) for size in sizes) > room_bytes:
        most //= 2
    return most


def payload_of(
    data: bytes | None,
    form: Form = Form.AUTO,
    max_bytes: int = MAX_SHOWN_BYTES,
    size_bytes: int | None = None,
) -> Payload:
    """Return the bytes in `form`, or in the next one that can show them: text, then hex.

    Only the first `max_bytes` are shown. With `size_bytes`, `data` is the beginning of so many.
    """
    if data is None:
        return Payload("null", Form.TEXT, 0, 0, is_null=True)
    shown = data[:max_bytes]
    if size_bytes is None:
        size_bytes = len(data)
    is_cut = size_bytes > len(shown)
    if form is Form.HEX:
        return Payload(hex_dump(shown), Form.HEX, size_bytes, len(shown))
    try:
        # A cut may divide a character.
        text = shown.decode("utf-8", errors="ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        if form is Form.TEXT:
            text = shown.decode("utf-8", errors="backslashreplace")
            return Payload(visible_lines(text), Form.TEXT, size_bytes, len(shown))
        return Payload(hex_dump(shown), Form.HEX, size_bytes, len(shown))
    if (
        form is not Form.TEXT
        and not is_cut
        and text[:1] in ("{", "[", *('"' * (form is Form.JSON)))
    ):
        indented = indented_json(text, MAX_INDENTATION * max_bytes)
        if indented is not None:
            return Payload(visible_lines(indented), Form.JSON, size_bytes, size_bytes)
    return Payload(visible_lines(text), Form.TEXT, size_bytes, len(shown))


def indented_json(
    text: str, max_indentation: int = MAX_INDENTATION * MAX_SHOWN_BYTES
) -> str | None:
    """Return JSON with a line per member; None if the text is not JSON, or is too deep.

    Deep lists of short members would need far more characters of indentation than they have: with
    more than `max_indentation`, they are too deep, too.

    The tokens stay as they are: numbers keep all digits, and no duplicate name is lost.
    """
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    lines: list[str] = [""]
    depth = indentation = 0
    tokens = _TOKEN.findall(text)
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        if token in "]}":
            depth -= 1
            if tokens[position - 1] not in "[{":
                lines.append(_INDENT * depth)
            lines[-1] += token
        elif token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return None
            lines[-1] += token
            if following not in "]}":
                lines.append(_INDENT * depth)
        elif token == ",":
            lines[-1] += token
            lines.append(_INDENT * depth)
        else:
            lines[-1] += ": " if token == ":" else token
            continue
        indentation += len(_INDENT) * depth
        if indentation > max_indentation:
            return None
    return "\n".join(lines)


def hex_dump(data: bytes) -> str:
    """Return lines of position, bytes in hexadecimal, and printable ASCII."""
    return "\n".join(_hex_lines(data))


def _hex_lines(data: bytes) -> Iterator[str]:
    for position in range(0, len(data), HEX_COLUMNS):
        row = data[position : position + HEX_COLUMNS]
        characters = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in row)
        yield f"{position:08x}  {row.hex(' '):<{3 * HEX_COLUMNS - 1}}  {characters}"
