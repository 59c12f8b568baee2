"""Java's key stores of type JKS (decision).

A store is a magic number, a version, entries, and SHA-1 of all that, begun with the password. An
entry is a key, encrypted with its password, and its certificates, or a trusted certificate. The
cipher is Java's own, and weak: protect the file.

Source: sun.security.provider.JavaKeyStore and KeyProtector of Java 17.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from trust import der

MAGIC: Final = b"\xfe\xed\xfe\xed"
MAX_ENTRIES: Final = 10_000
MAX_CHAIN: Final = 100
_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES: Final = 20
_SALTED: Final = b"Mighty Aphrodite"
# 1.3.6.1.4.1.42.2.17.1.1
_KEY_PROTECTOR: Final = bytes.fromhex("2b060104012a02110101")


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key, still encrypted, and its certificates in DER, the own one first."""

    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def decrypted(self, password: str) -> bytes:
        """Return the key as PKCS#8 in DER.

        Raises:
            ValueError: the password is wrong, or the key is damaged.
        """
        algorithm, value = der.items(der.content(der.only(self.protected), der.SEQUENCE))
        kind, *_ = der.items(der.content(algorithm, der.SEQUENCE))
        if der.content(kind, der.OBJECT_ID) != _KEY_PROTECTOR:
            raise ValueError("the key is encrypted by an algorithm that JKS does not have")
        data = der.content(value, der.OCTET_STRING)
        salt, check = data[:_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        encrypted = data[_DIGEST_BYTES:-_DIGEST_BYTES]
        secret, digest, stream = _text(password), salt, bytearray()
        while len(stream) < len(encrypted):
            digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
            stream += digest
        key = bytes(one ^ other for one, other in zip(encrypted, stream, strict=False))
        found = hashlib.sha1(secret + key, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, check):
            raise ValueError("the password of the key is wrong, or the key is damaged")
        return key


@dataclass(frozen=True, slots=True)
class JksStore:
    """The entries of a store."""

    keys: tuple[JksKey, ...]
    certificates: tuple[bytes, ...]


def parse_jks(data: bytes, password: str) -> JksStore:
    """Return the entries of a store; without a password its integrity is not checked, as in Java.

    Raises:
        ValueError: the store is malformed, or the password is wrong.
    """
    body, check = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password:
        found = hashlib.sha1(_text(password) + _SALTED + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, check):
            raise ValueError("the password is wrong, or the store is damaged")
    return _Reader(body).store()


class _Reader:
    """Takes fields from the front of the data; every length is checked against the rest."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def store(self) -> JksStore:
        magic, version, count = self._bytes(4), self._number(), self._number()
        if magic != MAGIC or version not in (1, 2):
            raise ValueError("it is not a JKS store of version 1 or 2")
        if count > MAX_ENTRIES:
            raise ValueError(f"it has {count} entries, more than {MAX_ENTRIES}")
        keys, certificates = [], []
        for _ in range(count):
            tag = self._number()
            self._short_bytes()  # The alias.
            self._bytes(8)  # The date.
            if tag == _KEY:
                keys.append(JksKey(self._long_bytes(), self._chain(version)))
            elif tag == _CERTIFICATE:
                certificates.append(self._certificate(version))
            else:
                raise ValueError(f"an entry has the unknown type {tag}")
        if self._position != len(self._data):
            raise ValueError("there is more data than entries")
        return JksStore(tuple(keys), tuple(certificates))

    def _chain(self, version: int) -> tuple[bytes, ...]:
        count = self._number()
        if count > MAX_CHAIN:
            raise ValueError(f"a key has {count} certificates, more than {MAX_CHAIN}")
        return tuple(self._certificate(version) for _ in range(count))

    def _certificate(self, version: int) -> bytes:
        if version > 1 and self._short_bytes() not in (b"X.509", b"X509"):
            raise ValueError("a certificate is not of type X.509")
        return self._long_bytes()

    def _number(self) -> int:
        return int.from_bytes(self._bytes(4), "big")

    def _short_bytes(self) -> bytes:
        return self._bytes(int.from_bytes(self._bytes(2), "big"))

    def _long_bytes(self) -> bytes:
        return self._bytes(self._number())

    def _bytes(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("the store is cut off")
        found = self._data[self._position : end]
        self._position = end
        return found


def _text(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
