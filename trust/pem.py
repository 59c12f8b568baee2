"""PEM text of keys and certificates (decision).

Properties often hold PEM on a single line, which OpenSSL does not read. Source: RFC 7468; PemStore
of Kafka 3.9.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final

from trust import der

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]{1,40})-----(?P<data>[A-Za-z0-9+/=\s]*)-----END (?P=label)-----"
)
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN (?P<label>(?:X509 |TRUSTED )?CERTIFICATE)-----(?P<data>[A-Za-z0-9+/=\s]*)"
    rb"-----END (?P=label)-----"
)
_LINE: Final = re.compile(".{1,64}")


def normalised(text: str) -> str:
    """Return the blocks in `text` with lines as OpenSSL reads them; text between them is lost.

    Raises:
        ValueError: it has no block, or a block is not base64. The error does not show the text.
    """
    blocks = []
    for found in _BLOCK.finditer(text):
        try:
            data = b64decode("".join(found["data"].split()), validate=True)
        except binascii.Error:
            raise ValueError(f"the {found['label']} is not base64") from None
        blocks.append(pem_block(found["label"], data))
    if not blocks:
        raise ValueError("there is no PEM block in it")
    return "".join(blocks)


def first_certificate(text: bytes) -> bytes:
    """Return the first certificate in `text`, of which OpenSSL has read one, as DER."""
    found = _CERTIFICATE.search(text)
    assert found is not None, "OpenSSL has found a certificate"
    data = b64decode(found["data"])
    # A certificate with the label TRUSTED is followed by its settings.
    _, _, certificate = next(der.items(data))
    return certificate


def pem_block(label: str, data: bytes) -> str:
    """Return `data` as a block of PEM."""
    lines = "\n".join(_LINE.findall(b64encode(data).decode()))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
