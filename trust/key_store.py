"""Keys and trusted certificates in the stores of Java, as PEM (decision).

Java opens both kinds of store under both names, so the first bytes decide, not the configured type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trust import jks, pkcs12
from trust.pem import pem_block

PEM: Final = "PEM"
TYPES: Final = ("JKS", "PKCS12", PEM)
MAX_STORE_BYTES: Final = 16 * 1024 * 1024
"""Limit of a store's size; the certificates of all public authorities take 200 KB."""
_JCEKS: Final = b"\xce\xce\xce\xce"
_BEGIN: Final = b"-----BEGIN"
_DER: Final = b"\x30"


def key_pem(data: bytes, password: str, key_password: str) -> str:
    """Return the private key in a store and its certificates.

    Raises:
        ValueError: the store cannot be opened, or does not hold exactly one key.
    """
    if data[:4] != jks.MAGIC:
        return _pkcs12_key_pem(data, password, key_password)
    keys = jks.parse_jks(data, password).keys
    if len(keys) != 1:
        raise ValueError(f"it must hold one private key, and has {len(keys)}")
    key = keys[0].decrypted(key_password or password)
    return pem_block("PRIVATE KEY", key) + _certificates(keys[0].chain)


def trust_pem(data: bytes, password: str) -> str:
    """Return the certificates that a store trusts: entries of their own, and the first of each key.

    Raises:
        ValueError: the store cannot be opened, or is empty.
    """
    if data[:4] == jks.MAGIC:
        store = jks.parse_jks(data, password)
        trusted = (*store.certificates, *(key.chain[0] for key in store.keys if key.chain))
    else:
        _check_kind(data)
        trusted = pkcs12.parse_pkcs12(data, password).trusted
    if not trusted:
        raise ValueError("it holds no certificates")
    return _certificates(trusted)


def _pkcs12_key_pem(data: bytes, password: str, key_password: str) -> str:
    _check_kind(data)
    if key_password not in ("", password):
        raise ValueError("the key of a PKCS12 store has the password of the store, no other one")
    store = pkcs12.parse_pkcs12(data, password)
    if store.key is None:
        raise ValueError("it must hold one private key, and has 0")
    return pem_block("PRIVATE KEY", store.key) + _certificates(store.chain)


def _check_kind(data: bytes) -> None:
    """Refuse all but PKCS12.

    Raises:
        ValueError: the data has another form.
    """
    if data.lstrip()[: len(_BEGIN)] == _BEGIN:
        raise ValueError("it is a PEM file: set the type to PEM")
    if data[:4] == _JCEKS:
        raise ValueError("stores of type JCEKS are not read: convert it by `keytool`")
    if data[:1] != _DER:
        raise ValueError("it is neither a JKS nor a PKCS12 store")


def _certificates(certificates: Iterable[bytes]) -> str:
    return "".join(pem_block("CERTIFICATE", each) for each in certificates)
