"""The alternative names of certificates: `trust.alternative_names`."""

from __future__ import annotations

import ssl

import pytest

from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD
from trust.alternative_names import alternative_names_of
from trust.key_store import key_pem
from trust.pem import first_certificate

OWN = first_certificate(key_pem(GOLDEN["key.jks"], PASSWORD, KEY_PASSWORD).encode())


def tlv(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    assert len(content) < 128, "a short length"
    return bytes([tag, len(content)]) + content


def extension(object_id: bytes, value: bytes) -> bytes:
    return tlv(0x30, tlv(0x06, object_id), tlv(0x01, b"\xff"), tlv(0x04, value))


def certificate(*extensions: bytes) -> bytes:
    """Return as much of a certificate as is read: a number, and extensions if there are any."""
    more = [tlv(0xA3, tlv(0x30, *extensions))] if extensions else []
    return tlv(0x30, tlv(0x30, tlv(0x02, b"\x01"), *more))


def test_names_in_a_real_certificate() -> None:
    assert "DNS:localhost" in alternative_names_of(OWN)


def test_the_first_certificate_of_a_text_is_found() -> None:
    text = f"Bag Attributes\n{ssl.DER_cert_to_PEM_cert(OWN)}".encode()
    assert first_certificate(text + text) == OWN
    # OpenSSL takes no notice of blocks of other kinds.
    other = b"-----BEGIN ATTRIBUTE CERTIFICATE-----\nMAA=\n-----END ATTRIBUTE CERTIFICATE-----\n"
    assert first_certificate(other + text) == OWN


def test_every_kind_of_name_has_a_text() -> None:
    names = tlv(
        0x30,
        tlv(0x81, b"a@b"),
        tlv(0x82, b"host"),
        tlv(0x86, b"spiffe://x"),
        tlv(0x87, b"\x7f\0\0\x01"),
        tlv(0x87, bytes(15) + b"\x01"),
        tlv(0x87, b"10.0.0.1"),
        tlv(0x88, b"\x2a"),
    )
    found = alternative_names_of(
        certificate(extension(b"\x55\x1d\x0f", b"\x03"), extension(b"\x55\x1d\x11", names))
    )
    assert found == {
        "email:a@b", "DNS:host", "URI:spiffe://x", "IP:127.0.0.1", "IP:::1", "#88012a",
        "#870831302e302e302e31",
    }  # fmt: skip


def test_a_certificate_may_have_no_such_names() -> None:
    assert alternative_names_of(certificate()) == frozenset()
    assert alternative_names_of(certificate(extension(b"\x55\x1d\x0f", b"\x03"))) == frozenset()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not enough values"),
        (b"\x30", "cut off"),
        (OWN[:-1], "cut off"),
        (certificate(tlv(0x30)), "not enough values"),
    ],
)
def test_anything_else_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        alternative_names_of(data)
