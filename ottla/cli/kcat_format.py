r"""Format strings of kcat for consumed records (decision).

    %s  value            %S  its size in bytes, -1 without a value
    %k  key              %K  its size in bytes, -1 without a key
    %t  topic            %p  partition      %o  offset
    %T  timestamp in ms  %h  headers, as name=value,...
    %%  a percent sign   \n \r \t \\ \xNN  characters

As in kcat, key, value and headers are written as they are, and no line feed follows. Unprintable
characters in a topic's name are escaped. A terminal needs more: see `ShowData`.
Source: kcat(1), option -f.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.cli.text import shown

if TYPE_CHECKING:
    # A command's signature needs this module, and printing help must not load the client.
    from ottla.client.record import ConsumerRecord

ShowData: TypeAlias = Callable[[bytes], bytes]
"""Function that escapes the data of a record, which is untrusted, for the reader of the output."""
Part: TypeAlias = "bytes | Callable[[ConsumerRecord], bytes]"

_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{1,2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
NO_SIZE: Final = b"-1"


def parse_format(text: str, show: ShowData = bytes) -> list[Part]:
    """Return the parts of a format string; fields of a record pass through `show`.

    Raises:
        ValueError: it has an unknown token or escape.
    """
    return [_part(found, show) for found in _TOKEN.finditer(text)]


def write_parts(parts: list[Part], record: ConsumerRecord) -> bytes:
    """Return `record` in the format of these parts."""
    return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def _part(found: re.Match[str], show: ShowData) -> Part:
    token, escape = found.groups()
    if token == "%":
        return b"%"
    if token is not None:
        if token not in _FIELDS:
            known = " ".join(f"%{each}" for each in _FIELDS)
            raise ValueError(f"the format has %{token}; tokens are {known} %%")
        field = _FIELDS[token]
        return lambda record: show(field(record))
    if escape is None:
        # An argument holds bytes that are not UTF-8 as surrogates.
        return found.group().encode(errors="surrogateescape")
    if len(escape) > 1:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise ValueError(rf"the format has \{escape}; escapes are \n \r \t \\ \xNN")
    return _ESCAPES[escape]


def _size(data: bytes | None) -> bytes:
    return NO_SIZE if data is None else b"%d" % len(data)


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


_FIELDS: Final[dict[str, Callable[[ConsumerRecord], bytes]]] = {
    "s": lambda record: record.value or b"",
    "S": lambda record: _size(record.value),
    "k": lambda record: record.key or b"",
    "K": lambda record: _size(record.key),
    "t": lambda record: shown(record.topic).encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
}
