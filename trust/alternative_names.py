"""The alternative names in a certificate, for which clients verify it (decision).

Source: RFC 5280, section 4.2.1.6.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from trust import der

_EXTENSIONS: Final = 0xA3
_SUBJECT_ALTERNATIVE_NAME: Final = b"\x55\x1d\x11"
_KINDS: Final = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_IP: Final = 0x87
_IP_BYTES: Final = (4, 16)


def alternative_names_of(certificate: bytes) -> frozenset[str]:
    """Return the alternative names of a certificate in DER, such as `DNS:localhost`.

    Raises:
        ValueError: it is not a certificate.
    """
    [tbs, *_] = der.items(der.content(der.only(certificate), der.SEQUENCE))
    for field in der.items(der.content(tbs, der.SEQUENCE)):
        if field[0] == _EXTENSIONS:
            return _names_in(field[1])
    return frozenset()


def _names_in(extensions: bytes) -> frozenset[str]:
    for extension in der.items(der.content(der.only(extensions), der.SEQUENCE)):
        kind, *_, value = der.items(der.content(extension, der.SEQUENCE))
        if der.content(kind, der.OBJECT_ID) == _SUBJECT_ALTERNATIVE_NAME:
            names = der.only(der.content(value, der.OCTET_STRING))
            return frozenset(map(_text_of, der.items(der.content(names, der.SEQUENCE))))
    return frozenset()


def _text_of(name: der.Item) -> str:
    tag, content, encoding = name
    # Some tools write an address as text, which matches no host.
    if tag == _IP and len(content) in _IP_BYTES:
        return f"IP:{ipaddress.ip_address(content)}"
    if tag in _KINDS:
        return f"{_KINDS[tag]}:{content.decode('latin-1')}"
    return f"#{encoding.hex()}"
