"""Loads keys and trusted certificates into TLS contexts (edge).

The keys of properties are Kafka's, for brokers and for clients. Keys and inline PEM pass through
memory only, and no error shows a secret.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from trust.cipher_suite import choose_suites
from trust.key_store import MAX_STORE_BYTES, PEM, TYPES, key_pem, trust_pem
from trust.pem import first_certificate, normalised

SERVER_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of servers with TLS 1.2, in OpenSSL's words: forward secrecy, and authenticated
encryption. TLS 1.3 has nothing else."""
CIPHER_SUITES: Final = "ssl.cipher.suites"
KEY_STORE: Final = "ssl.keystore"
TRUST_STORE: Final = "ssl.truststore"


class StoreError(ValueError):
    """A property cannot be used; `shown` is its value, None if that may be a secret."""

    def __init__(self, key: str, rule: str, shown: str | None = None) -> None:
        super().__init__(f"{key} {rule}")
        self.key = key
        self.rule = rule
        self.shown = shown


@dataclass(frozen=True, kw_only=True)
class KeySource:
    """The properties `ssl.keystore.` and `ssl.key.password`; "" if not set."""

    type: str
    location: str = ""
    password: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    certificate_chain: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class TrustSource:
    """The properties `ssl.truststore.`; "" if not set."""

    type: str
    location: str = ""
    password: str = field(default="", repr=False)
    certificates: str = ""


def load_key(context: ssl.SSLContext, source: KeySource) -> bytes | None:
    """Load the private key and its certificates; return the first one, None if there are none.

    Raises:
        StoreError: a property contradicts another one, or a store cannot be used.
    """
    if not (source.location or source.key or source.certificate_chain):
        return None
    key = f"{KEY_STORE}.location" if source.location else f"{KEY_STORE}.key"
    text = _key_text(source)
    try:
        with _in_memory(text) as path:
            # Without a password, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: source.key_password)
    except (OSError, ValueError) as error:
        # A ValueError is a password that OpenSSL cannot take; it does not show it.
        hint = "check the key, its chain and ssl.key.password"
        rule = f"cannot be used ({_reason(error)}): {hint}"
        raise StoreError(key, rule, source.location or None) from None
    return first_certificate(text)


def load_trust(context: ssl.SSLContext, source: TrustSource) -> None:
    """Load the trusted certificates; if none are configured, the certificates of the system.

    Raises:
        StoreError: a property contradicts another one, or a store cannot be used.
    """
    if not source.location and not source.certificates:
        context.load_default_certs()
        return
    key = f"{TRUST_STORE}.location" if source.location else f"{TRUST_STORE}.certificates"
    text = _trust_text(source)
    try:
        with _in_memory(text) as path:
            context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        rule = f"holds no certificates ({_reason(error)})"
        raise StoreError(key, rule, source.location or None) from None
    except OSError as error:
        rule = f"cannot be used ({_reason(error)})"
        raise StoreError(key, rule, source.location or None) from None


def limit_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Allow only the cipher suites `names`, and of the context's versions only theirs.

    Raises:
        StoreError: a name is not served, or no version is left.
    """
    shown = ",".join(names)
    try:
        choice = choose_suites(names)
    except ValueError as error:
        raise StoreError(CIPHER_SUITES, str(error), shown) from None
    lowest, highest = context.minimum_version, context.maximum_version
    versions = []
    if choice.tls_1_2 and lowest is not ssl.TLSVersion.TLSv1_3:
        context.set_ciphers(":".join(choice.tls_1_2))
        versions.append(ssl.TLSVersion.TLSv1_2)
    if choice.has_tls_1_3 and highest is not ssl.TLSVersion.TLSv1_2:
        versions.append(ssl.TLSVersion.TLSv1_3)
    if not versions:
        raise StoreError(CIPHER_SUITES, "has no suite of the enabled versions of TLS", shown)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _key_text(source: KeySource) -> bytes:
    """Return the key and its chain as PEM."""
    inline = source.key or source.certificate_chain
    if source.location and inline:
        raise StoreError(f"{KEY_STORE}.location", f"excludes {KEY_STORE}.key and its chain")
    if source.type != PEM:
        _check_store(KEY_STORE, source.location, source.type)
        if not source.password:
            raise StoreError(f"{KEY_STORE}.password", f"must be set for {source.type}")
        open_store = partial(key_pem, password=source.password, key_password=source.key_password)
        return _from_store(KEY_STORE, source.location, open_store)
    if source.password:
        rule = "must not be set for PEM; ssl.key.password is the password of the key"
        raise StoreError(f"{KEY_STORE}.password", rule)
    if source.location:
        return _from_store(KEY_STORE, source.location, bytes)
    if not (source.key and source.certificate_chain):
        rule = f"needs {KEY_STORE}.certificate.chain, and it this"
        raise StoreError(f"{KEY_STORE}.key", rule)
    return _normalised(f"{KEY_STORE}.key", f"{source.key}\n{source.certificate_chain}")


def _trust_text(source: TrustSource) -> bytes:
    """Return the trusted certificates as PEM."""
    if source.location and source.certificates:
        raise StoreError(f"{TRUST_STORE}.location", f"excludes {TRUST_STORE}.certificates")
    if source.type != PEM:
        _check_store(TRUST_STORE, source.location, source.type)
        open_store = partial(trust_pem, password=source.password)
        return _from_store(TRUST_STORE, source.location, open_store)
    if source.password:
        raise StoreError(f"{TRUST_STORE}.password", "must not be set for PEM")
    if source.location:
        return _from_store(TRUST_STORE, source.location, bytes)
    return _normalised(f"{TRUST_STORE}.certificates", source.certificates)


def _check_store(prefix: str, location: str, kind: str) -> None:
    if kind not in TYPES:
        raise StoreError(f"{prefix}.type", f"must be one of {', '.join(TYPES)}", kind)
    if not location:
        raise StoreError(f"{prefix}.type", "must be PEM for text in the properties", kind)


def _from_store(prefix: str, location: str, open_store: Callable[[bytes], str | bytes]) -> bytes:
    """Return the PEM text that `open_store` finds in a file."""
    try:
        found = open_store(_read(location))
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise StoreError(f"{prefix}.location", rule, location) from None
    except ValueError as error:
        raise StoreError(f"{prefix}.location", f"cannot be used: {error}", location) from None
    return found.encode() if isinstance(found, str) else found


def _read(location: str) -> bytes:
    """Return the content of a store.

    Raises:
        ValueError: it is too large, or a pipe or device, whose reading might never end.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a program that writes into it.
    with os.fdopen(os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(MAX_STORE_BYTES + 1)
    if len(data) > MAX_STORE_BYTES:
        raise ValueError(f"it has more than {MAX_STORE_BYTES} bytes")
    return data


def _normalised(key: str, text: str) -> bytes:
    try:
        return normalised(text).encode()
    except ValueError as error:
        raise StoreError(key, f"cannot be used: {error}") from None


@contextmanager
def _in_memory(text: bytes) -> Iterator[str]:
    """Yield the path of a file in memory that holds `text`."""
    descriptor = os.memfd_create("pem")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "malformed").lower().replace("_", " ")
    if isinstance(error, UnicodeEncodeError):
        # Its text shows a character of the password.
        return "the password is not UTF-8"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
