"""The subject of a certificate as text, as Java writes it (decision).

Kafka's principals and ACLs contain this text, so it must be equal to the byte. Java's differs from
most libraries: it escapes every `=` and `#`, and writes types without a keyword as numbers.

Source: X.690 (DER), RFC 5280; RFC 2253; javax.security.auth.x500.X500Principal.getName of Java 17.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
# Before the subject, after the version: serial number, algorithm, issuer, validity.
_FIELDS_BEFORE_SUBJECT: Final = 4
_LONG_LENGTH: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4

_KEYWORDS: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
    "2.5.4.10": "O", "2.5.4.11": "OU", "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_TEXT_ENCODINGS: Final = {
    0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "utf-16-be",
}  # fmt: skip
"""By tag: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"

Item = tuple[int, bytes, bytes]
"""Tag, content, and the whole encoding."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER.

    Raises:
        ValueError: it is not a certificate.
    """
    [tbs, *_] = _items(_content(_only(certificate), _SEQUENCE))
    fields = [each for each in _items(_content(tbs, _SEQUENCE)) if each[0] != _VERSION]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise ValueError("a certificate without a subject")
    names = list(_items(_content(fields[_FIELDS_BEFORE_SUBJECT], _SEQUENCE)))
    return ",".join(
        "+".join(_attribute(each) for each in _items(_content(name, _SET)))
        for name in reversed(names)
    )


def _attribute(item: Item) -> str:
    kind, value = _items(_content(item, _SEQUENCE))
    number = _object_id(_content(kind, _OBJECT_ID))
    keyword, encoding = _KEYWORDS.get(number), _TEXT_ENCODINGS.get(value[0])
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{value[2].hex()}"
    return f"{keyword}={_escape(value[1].decode(encoding, 'replace'))}"


def _escape(text: str) -> str:
    lead = len(text) - len(text.lstrip(_BLANKS))
    trail = len(text.rstrip(_BLANKS))
    return "".join(
        f"\\{each}"
        if each in _ESCAPED or not lead <= index < trail
        else "\\00"
        if each == "\0"
        else each
        for index, each in enumerate(text)
    )


def _object_id(data: bytes) -> str:
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(value)
            value = 0
    if not numbers:
        raise ValueError("an empty object id")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _content(item: Item, tag: int) -> bytes:
    if item[0] != tag:
        raise ValueError(f"tag {item[0]:#x} in place of {tag:#x}")
    return item[1]


def _only(data: bytes) -> Item:
    [item] = _items(data)
    return item


def _items(data: bytes) -> Iterator[Item]:
    """Yield the encodings that follow each other in `data`."""
    position = 0
    while position < len(data):
        start, tag, position = position, data[position], position + 2
        length = int.from_bytes(data[position - 1 : position], "big")
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            if not 0 < count <= _MAX_LENGTH_BYTES:
                raise ValueError("a length that DER does not allow")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + length
        if end > len(data) or position < start + 2:
            raise ValueError("an encoding is cut off")
        yield tag, data[position:end], data[start:end]
        position = end
