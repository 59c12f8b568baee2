"""Parses input lines into records to send (decision).

A line has one of three forms: a value; key, separator and value; or a JSON object with any of
`key`, `value`, `headers`, `partition` and `timestamp` (ms, or ISO 8601). A JSON key or value that
is not a string is sent as its JSON text; `key_base64` and `value_base64` hold arbitrary bytes.
"""

import base64
import binascii
import datetime
import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkawire.records_loops import MAX_TIMESTAMP_MS
from ottla.cli.text import NO_TIMESTAMP_MS

MAX_LINE_BYTES: Final = 100 * 1024 * 1024
_NEWLINE: Final = b"\n"
_FIRST_SURROGATE: Final = "\ud800"
_LAST_SURROGATE: Final = "\udfff"
_IGNORED: Final = {"topic", "offset", "leader_epoch", "timestamp_type"}
_KNOWN: Final = {
    "key", "value", "key_base64", "value_base64", "headers", "partition", "timestamp",
}  # fmt: skip
_TOO_DEEP: Final = "its arrays and objects are nested too deeply"

Headers = tuple[tuple[str, bytes | None], ...]


class InputError(ValueError):
    """A line cannot be parsed as a record; the message states the reason."""


class InputRecord(NamedTuple):
    """One record to send; the producer chooses the partition and timestamp that are None."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


ParseLine = Callable[[bytes], InputRecord]


class LineSplitter:
    """Splits a stream of chunks into lines without their line feeds; the last may lack one."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes.

        Raises:
            InputError: a line exceeds the limit.
        """
        lines = chunk.split(_NEWLINE)
        end = lines.pop()
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest, self._rest_bytes = [], 0
        self._rest.append(end)
        self._rest_bytes += len(end)
        if self._rest_bytes > self._max_line_bytes:
            raise InputError(f"longer than the limit of {self._max_line_bytes} bytes")
        return lines

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if the stream did not end with a line feed."""
        if last := b"".join(self._rest):
            yield last


def line_parser(*, key_separator: str | None, is_json: bool) -> ParseLine:
    """Return the function that parses lines of the chosen form."""
    if is_json:
        return _parse_json
    if key_separator is not None:
        return _KeyedLine(key_separator.encode(errors="surrogateescape"))
    return _parse_value


def _parse_value(line: bytes) -> InputRecord:
    return InputRecord(value=line)


class _KeyedLine:
    def __init__(self, separator: bytes) -> None:
        self._separator = separator

    def __call__(self, line: bytes) -> InputRecord:
        key, found, value = line.partition(self._separator)
        if not found:
            separator = self._separator.decode(errors="backslashreplace")
            raise InputError(f"no separator {separator!r} found")
        return InputRecord(key=key, value=value)


def _parse_json(line: bytes) -> InputRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise InputError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    if not isinstance(document, dict):
        raise InputError("not a JSON object")
    if unknown := document.keys() - _KNOWN - _IGNORED:
        raise InputError(f"unknown field {', '.join(sorted(unknown))}")
    return InputRecord(
        key=_field_bytes(document, "key"),
        value=_field_bytes(document, "value"),
        partition=_partition(document.get("partition")),
        timestamp_ms=_timestamp_ms(document.get("timestamp")),
        headers=_headers(document.get("headers")),
    )


def _field_bytes(document: dict[str, object], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is None:
        return _to_bytes(document.get(name))
    if name in document:
        raise InputError(f"fields {name} and {name}_base64 are both present")
    try:
        return base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{name}_base64 is not valid base64") from None


def _to_bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            # Writing takes a little more of the stack than reading.
            raise InputError(_TOO_DEEP) from None
    return _encodable(value).encode()


def _encodable(text: str) -> str:
    # JSON can spell half of a UTF-16 surrogate pair, which UTF-8 cannot encode.
    if any(_FIRST_SURROGATE <= character <= _LAST_SURROGATE for character in text):
        raise InputError(f"{text!r} contains half of a character (a lone surrogate)")
    return text


def _partition(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"partition {value!r} is not an integer of 0 or more")
    return value


def _timestamp_ms(value: object) -> int | None:
    if isinstance(value, str):
        value = parse_time_ms(value)
    # `ottla consume` writes -1 for a record without a timestamp.
    if value is None or value == NO_TIMESTAMP_MS:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_TIMESTAMP_MS:
            raise InputError(f"timestamp {value} must be within 0..{MAX_TIMESTAMP_MS}")
        return value
    raise InputError(f"timestamp {value!r} is neither milliseconds nor an ISO 8601 time")


def parse_time_ms(text: str) -> int:
    """Return an ISO 8601 time as milliseconds since 1970. A time without a zone is UTC.

    Raises:
        InputError: the text is not an ISO 8601 time.
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time like 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


def _headers(value: object) -> Headers:
    """Parse `{"name": value, ...}` or `[{"key": name, "value": value}, ...]`."""
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple((_encodable(name), _to_bytes(text)) for name, text in value.items())
    if isinstance(value, list) and all(isinstance(header, dict) for header in value):
        return tuple((_header_key(header), _field_bytes(header, "value")) for header in value)
    raise InputError("headers are neither an object nor a list of {key, value} objects")


def _header_key(header: dict[str, object]) -> str:
    key = header.get("key")
    if not isinstance(key, str):
        raise InputError(f"a header has no key: {header!r}")
    return _encodable(key)
