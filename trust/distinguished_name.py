"""The subject of a certificate as text, as Java writes it (decision).

Kafka's principals and ACLs contain this text, so it must be equal to the byte. Java's differs from
most libraries: it escapes every `=` and `#`, and writes types without a keyword as numbers.

Source: RFC 5280; RFC 2253; javax.security.auth.x500.X500Principal of Java 17.
"""

from __future__ import annotations

import re
from typing import Final

from trust import der

_VERSION: Final = 0xA0
# Before the subject, after the version: serial number, algorithm, issuer, validity.
_FIELDS_BEFORE_SUBJECT: Final = 4
_LAST_BYTE_BELOW: Final = 0x80

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

MAX_CHARS: Final = 4096
_NAMED: Final = (
    "CN|C|L|S|ST|O|OU|T|IP|STREET|DC|DNQUALIFIER|DNQ|SURNAME|GIVENNAME|INITIALS|GENERATION|EMAIL|"
    r"EMAILADDRESS|UID|SERIALNUMBER|(OID\.)?[0-2](\.[0-9]+)+"
)
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_PLAIN: Final = r'(?![#"])(?:[^,;+"\\<>]|\\[0-9a-f]{2}|\\[^0-9a-z])*+'
_ATTRIBUTE: Final = re.compile(
    rf"\s*(?:{_NAMED})\s*=\s*(?:#(?P<hex>(?:[0-9a-f]{{2}})+)\s*|{_QUOTED}\s*|{_PLAIN})",
    re.IGNORECASE | re.DOTALL,
)
_SEPARATORS: Final = ",;+"


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER.

    Raises:
        ValueError: it is not a certificate.
    """
    [tbs, *_] = der.items(der.content(der.only(certificate), der.SEQUENCE))
    fields = [each for each in der.items(der.content(tbs, der.SEQUENCE)) if each[0] != _VERSION]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise ValueError("a certificate without a subject")
    names = list(der.items(der.content(fields[_FIELDS_BEFORE_SUBJECT], der.SEQUENCE)))
    return ",".join(
        "+".join(_attribute(each) for each in der.items(der.content(name, der.SET)))
        for name in reversed(names)
    )


def is_distinguished_name(text: str) -> bool:
    """Whether Java accepts `text` as the name of a subject; at most `MAX_CHARS` characters."""
    if not text:
        return True
    position = 0
    while len(text) <= MAX_CHARS:
        found = _ATTRIBUTE.match(text, position)
        if found is None or not _is_one_encoding(found["hex"]):
            return False
        if found.end() == len(text):
            return True
        if text[found.end()] not in _SEPARATORS or found.end() + 1 == len(text):
            return False
        position = found.end() + 1
    return False


def _is_one_encoding(text: str | None) -> bool:
    if text is None:
        return True
    try:
        der.only(bytes.fromhex(text))
    except ValueError:
        return False
    return True


def _attribute(item: der.Item) -> str:
    kind, value = der.items(der.content(item, der.SEQUENCE))
    number = _object_id(der.content(kind, der.OBJECT_ID))
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
        if byte < _LAST_BYTE_BELOW:
            numbers.append(value)
            value = 0
    if not numbers:
        raise ValueError("an empty object id")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
