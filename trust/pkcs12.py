"""Key stores of type PKCS12 (decision), opened by the optional package `cryptography`.

Source: RFC 7292; sun.security.pkcs12.PKCS12KeyStore of Java 17 for entries of trusted certificates.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trust import der

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

MAX_ITERATIONS: Final = 1_000_000
"""Limit of the hashes that opening a store costs, about a second; Java writes 10,000."""
MAX_DEPTH: Final = 40
MISSING: Final = (
    "PKCS12 needs the package cryptography: install ottla[security], or convert the store by "
    "`openssl pkcs12 -in STORE.p12 -noenc -out STORE.pem` and set the type to PEM"
)


@dataclass(frozen=True, slots=True)
class Pkcs12Store:
    """The entries of a store, in DER. `key` is PKCS#8; None if there is none."""

    key: bytes | None = field(repr=False)
    chain: tuple[bytes, ...]
    """The certificates of the key, the own one first."""
    trusted: tuple[bytes, ...]
    """As Java: the certificate of the key, and all that are not in the key's chain."""


def parse_pkcs12(data: bytes, password: str) -> Pkcs12Store:
    """Return the entries of a store.

    Raises:
        ValueError: the store is malformed or would cost too much, the password is wrong, or
            `cryptography` is missing.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ValueError(MISSING) from None
    if _is_costly(data):
        raise ValueError(f"opening the store would take more than {MAX_ITERATIONS} hashes")
    try:
        with warnings.catch_warnings():
            # A store in BER is opened, too, with a warning for programmers.
            warnings.simplefilter("ignore", UserWarning)
            found = load_pkcs12(data, password.encode() if password else None)
    except UnsupportedAlgorithm:
        raise ValueError("the store uses an algorithm that is not served") from None
    except ValueError:
        raise ValueError("the password is wrong, or the store is damaged") from None
    return _entries(found)


def _entries(found: PKCS12KeyAndCertificates) -> Pkcs12Store:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    others = [each.certificate for each in found.additional_certs]
    own = None if found.cert is None else found.cert.certificate
    if found.key is None or own is None:
        trusted = others if own is None else [own, *others]
        return Pkcs12Store(None, (), tuple(each.public_bytes(Encoding.DER) for each in trusted))
    chain = _chain(own, others)
    for each in chain[1:]:
        # A second copy is an entry of its own, and therefore trusted.
        others.remove(each)
    return Pkcs12Store(
        found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        tuple(each.public_bytes(Encoding.DER) for each in chain),
        tuple(each.public_bytes(Encoding.DER) for each in [own, *others]),
    )


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """Return `own` and the issuers that follow it, each once."""
    chain, left = [own], list(others)
    while True:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None or issuer in chain:
            return chain
        chain.append(issuer)
        left.remove(issuer)


def _is_costly(data: bytes, depth: int = 0) -> bool:
    """Whether the parameters in `data` demand more than `MAX_ITERATIONS` hashes.

    A number of iterations follows its salt, wherever it stands: in the check of integrity, and in
    the parameters of each encrypted part.

    Raises:
        ValueError: it is not DER, or has too many levels.
    """
    if depth > MAX_DEPTH:
        raise ValueError("it has too many levels")
    before = 0
    for tag, content, _ in der.items(data):
        if tag == der.INTEGER and before == der.OCTET_STRING:
            if int.from_bytes(content, "big") > MAX_ITERATIONS:
                return True
        elif tag & der.CONSTRUCTED:
            if _is_costly(content, depth + 1):
                return True
        elif tag == der.OCTET_STRING:
            # Parts of a store are wrapped so, but ciphertext is, too.
            with suppress(ValueError):
                if _is_costly(content, depth + 1):
                    return True
        before = tag
    return False
