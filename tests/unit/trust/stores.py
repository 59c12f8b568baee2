"""Stores made by Java's keytool and by openssl, and a writer of JKS stores with any content."""

import base64
import hashlib
import json
import struct
from pathlib import Path
from typing import Final

PASSWORD: Final = "store-secret"
KEY_PASSWORD: Final = "key-secret"
"""Of the keys in `key.jks` and `key.jceks`."""

GOLDEN: Final = {
    name: base64.b64decode(text)
    for name, text in json.loads(
        Path(__file__).with_name("golden_stores.json").read_text(encoding="utf-8")
    ).items()
}
"""`key.*` hold a key and its chain, `trust.*` the authority, `both.p12` both.
`old.p12` has the ciphers of Java 8. `ca.der` and `b.der` are the certificates."""


def jks(*entries: bytes, version: int = 2, count: int | None = None, password: str = "") -> bytes:
    """Return a store with these entries, signed with `password` if there is one."""
    number = len(entries) if count is None else count
    body = b"\xfe\xed\xfe\xed" + struct.pack(">II", version, number) + b"".join(entries)
    text = password.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(text, usedforsecurity=False).digest()


def trusted(certificate: bytes, *, tag: int = 2, kind: bytes = b"X.509") -> bytes:
    """Return an entry with a trusted certificate."""
    return head(tag) + short(kind) + long(certificate)


def key(protected: bytes, *chain: bytes, count: int | None = None) -> bytes:
    """Return an entry with a key and its certificates."""
    number = struct.pack(">I", len(chain) if count is None else count)
    return head(1) + long(protected) + number + b"".join(short(b"X.509") + long(e) for e in chain)


def head(tag: int) -> bytes:
    return struct.pack(">I", tag) + short(b"alias") + bytes(8)


def short(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def der(tag: int, *parts: bytes) -> bytes:
    """Return a value in DER."""
    content = b"".join(parts)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    size = len(content).to_bytes(4, "big")
    return bytes([tag, 0x84]) + size + content
