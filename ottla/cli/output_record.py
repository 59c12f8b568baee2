"""Output formats of consumed records (decision)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from string import Formatter
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.cli.kcat_format import ShowData, parse_format, write_parts
from ottla.cli.text import (
    bytes_to_json,
    headers_to_json,
    readable,
    shown_data,
    shown_json,
    time_text,
)

if TYPE_CHECKING:
    # A command's signature needs this module, and printing help must not load the client.
    from ottla.client.record import ConsumerRecord

DEFAULT_SEPARATOR: Final = "\t"
MAX_NUMBER: Final = 2**63 - 1
"""Largest number in a field of a record, which a template must be able to show."""
MAX_WIDTH: Final = 10_000
"""Largest field width, in characters, that a template may request."""

WriteRecord: TypeAlias = "Callable[[ConsumerRecord], bytes]"


class OutputFormat(StrEnum):
    """Output formats of `ottla consume`."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"
    TEMPLATE = "template"
    KCAT = "kcat"


def record_writer(
    output_format: OutputFormat,
    *,
    separator: str = DEFAULT_SEPARATOR,
    template: str | None = None,
    is_for_terminal: bool = False,
) -> WriteRecord:
    """Return the function that encodes a record in the chosen format, line feed included.

    Only kcat's format has a line feed of its own. Formats that hold keys and values as they are
    escape them for a terminal, which would obey the control characters of a hostile producer.

    Raises:
        ValueError: the template is missing or malformed, names an unknown field, or has a width
            above `MAX_WIDTH`.
    """
    show: ShowData = shown_data if is_for_terminal else bytes
    if output_format is OutputFormat.TEMPLATE:
        return _TemplateWriter(template)
    if output_format is OutputFormat.KCAT:
        if template is None:
            raise ValueError(r"--format kcat needs --template, such as '%t/%p %k: %s\n'")
        return partial(write_parts, parse_format(template, show))
    if output_format is OutputFormat.KEY_VALUE:
        return _KeyValueWriter(separator.encode(errors="surrogateescape"), show)
    return _write_json if output_format is OutputFormat.JSON else partial(_write_value, show)


def record_size_bytes(record: ConsumerRecord) -> int:
    """Return the size of key and value together, in bytes."""
    return len(record.key or b"") + len(record.value or b"")


def _write_value(show: ShowData, record: ConsumerRecord) -> bytes:
    # A tombstone has no value and becomes an empty line.
    return show(record.value or b"") + b"\n"


def _write_json(record: ConsumerRecord) -> bytes:
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **bytes_to_json("key", record.key),
        **bytes_to_json("value", record.value),
        "headers": headers_to_json(record.headers),
    }
    return shown_json(json.dumps(document, ensure_ascii=False)).encode() + b"\n"


class _KeyValueWriter:
    def __init__(self, separator: bytes, show: ShowData) -> None:
        self._separator = separator
        self._show = show

    def __call__(self, record: ConsumerRecord) -> bytes:
        show = self._show
        return show(record.key or b"") + self._separator + show(record.value or b"") + b"\n"


class _TemplateWriter:
    def __init__(self, template: str | None) -> None:
        if template is None:
            raise ValueError("--format template needs --template, such as '{offset}: {value}'")
        self._template = template
        try:
            _check_widths(template)
            template.format_map(_EXAMPLE_FIELDS)
        except (KeyError, IndexError, ValueError, AttributeError, OverflowError) as error:
            known = ", ".join(_EXAMPLE_FIELDS)
            raise ValueError(f"the template is invalid at {error}; fields are {known}") from None

    def __call__(self, record: ConsumerRecord) -> bytes:
        text = self._template.format_map(_fields(record))
        # The template may have bytes that are not UTF-8, which an argument holds as surrogates.
        return text.encode(errors="surrogateescape") + b"\n"


def _check_widths(template: str) -> None:
    """Reject a template whose widths could turn one record into a line of gigabytes.

    Raises:
        ValueError: a width exceeds `MAX_WIDTH`, or comes from a field.
    """
    for _, _, width, _ in Formatter().parse(template):
        if width and ("{" in width or any(map(_is_too_wide, re.findall("[0-9]+", width)))):
            raise ValueError(f"{width!r}: a width must be a number up to {MAX_WIDTH}")


def _is_too_wide(number: str) -> bool:
    return len(number) > len(str(MAX_WIDTH)) or int(number) > MAX_WIDTH


def _fields(record: ConsumerRecord) -> dict[str, str | int]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": time_text(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
        "key": readable(record.key),
        "value": readable(record.value),
        "headers": ",".join(f"{key}={readable(value)}" for key, value in record.headers),
    }


_EXAMPLE_FIELDS: Final[dict[str, str | int]] = {
    "topic": "",
    "partition": MAX_NUMBER,
    "offset": MAX_NUMBER,
    "timestamp": "",
    "timestamp_ms": MAX_NUMBER,
    "key": "",
    "value": "",
    "headers": "",
}
