"""A certificate authority for one cluster, and certificates of its brokers (edge).

Keys are of the curve P-256, which makes handshakes cheap. A store is PEM: a key, then its
certificate. Certificates begin a day before they are made, for clients whose clocks are behind.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

AUTHORITY_LIFETIME: Final = datetime.timedelta(days=3_650)
LIFETIME: Final = datetime.timedelta(days=730)
RENEWED_BEFORE_END: Final = datetime.timedelta(days=90)
"""A certificate is renewed at a start that is closer to its end than this."""
ALLOWANCE: Final = datetime.timedelta(days=1)
_NAME_BYTES: Final = 4


@dataclass(frozen=True)
class KeyPair:
    """A private key with its certificate."""

    key: EllipticCurvePrivateKey = field(repr=False)
    certificate: Certificate

    @classmethod
    def parse(cls, pem: bytes) -> KeyPair:
        """Return the pair in a store.

        Raises:
            ValueError: the text is not a key of the curve and its certificate.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import load_pem_x509_certificate

        try:
            key = load_pem_private_key(pem, None)
            certificate = load_pem_x509_certificate(pem)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError(str(error)) from None
        is_ours = isinstance(key, EllipticCurvePrivateKey)
        if not is_ours or key.public_key() != certificate.public_key():
            raise ValueError("the key is of another kind, or of another certificate")
        return cls(key, certificate)

    def pem(self) -> bytes:
        """Return the store."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        key: bytes = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return key + self.certificate_pem()

    def certificate_pem(self) -> bytes:
        """Return the certificate."""
        from cryptography.hazmat.primitives.serialization import Encoding

        pem: bytes = self.certificate.public_bytes(Encoding.PEM)
        return pem


def new_authority(now: datetime.datetime, old: KeyPair | None = None) -> KeyPair:
    """Return a new authority.

    With `old`, it has the same name and key, so that clients that trust the old certificate accept
    new certificates of brokers until it ends.
    """
    from cryptography import x509

    key = _new_key() if old is None else old.key
    name = (
        _name(f"ottla authority {secrets.token_hex(_NAME_BYTES)}")
        if old is None
        else old.certificate.subject
    )
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, key, now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return KeyPair(key, _signed(builder, key))


def issue(authority: KeyPair, name: str, hosts: Sequence[str], now: datetime.datetime) -> KeyPair:
    """Return a new key and certificate for `hosts`: names and addresses."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = _new_key()
    issuer = authority.certificate.subject
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_name(name), issuer, key, now, LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    return KeyPair(key, _signed(builder, authority.key))


def is_current(pair: KeyPair, now: datetime.datetime) -> bool:
    """Whether a certificate is valid, and will be for longer than `RENEWED_BEFORE_END`."""
    begin: datetime.datetime = pair.certificate.not_valid_before_utc
    end: datetime.datetime = pair.certificate.not_valid_after_utc
    return begin <= now and now + RENEWED_BEFORE_END < end


def is_for(pair: KeyPair, authority: KeyPair, hosts: Sequence[str]) -> bool:
    """Whether `authority` has issued a certificate, and for exactly these hosts."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        pair.certificate.verify_directly_issued_by(authority.certificate)
        found = pair.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return list(found.value) == _names(hosts)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: Any,
    issuer: Any,
    key: EllipticCurvePrivateKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> Any:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - ALLOWANCE)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(builder: Any, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    certificate: Certificate = builder.sign(key, SHA256())
    return certificate


def _usage(**chosen: bool) -> Any:
    from cryptography import x509

    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: chosen.get(name, False) for name in names})


def _name(text: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _names(hosts: Sequence[str]) -> list[Any]:
    from cryptography import x509

    found: list[Any] = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            found.append(x509.DNSName(host))
    return found
