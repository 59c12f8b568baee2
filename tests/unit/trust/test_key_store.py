"""Stores of any type, as PEM: `trust.key_store`."""

import ssl

import pytest

from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD, jks, trusted
from trust.key_store import key_pem, trust_pem

CA, OWN = GOLDEN["ca.der"], GOLDEN["b.der"]


def certificates(pem: str) -> list[bytes]:
    """Return the certificates in PEM text."""
    end = "-----END CERTIFICATE-----\n"
    start = "-----BEGIN CERTIFICATE-----"
    return [
        ssl.PEM_cert_to_DER_cert(start + each.partition(start)[2] + end)
        for each in pem.split(end)[:-1]
    ]


@pytest.mark.parametrize(
    ("name", "key_password"),
    [("key.jks", KEY_PASSWORD), ("key.p12", ""), ("key.p12", PASSWORD), ("old.p12", "")],
)
def test_key_and_chain_become_pem(name: str, key_password: str) -> None:
    if name.endswith("p12"):
        pytest.importorskip("cryptography")
    pem = key_pem(GOLDEN[name], PASSWORD, key_password)
    assert pem.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert certificates(pem) == [OWN, CA]


@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("trust.jks", PASSWORD, [CA]),
        ("trust.jks", "", [CA]),
        ("key.jks", PASSWORD, [OWN]),
        ("trust.p12", PASSWORD, [CA]),
        ("both.p12", PASSWORD, [OWN, CA]),
    ],
)
def test_trusted_certificates_become_pem(name: str, password: str, expected: list[bytes]) -> None:
    if name.endswith("p12"):
        pytest.importorskip("cryptography")
    assert certificates(trust_pem(GOLDEN[name], password)) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "neither a JKS nor a PKCS12"),
        (b"\x00\x01", "neither a JKS nor a PKCS12"),
        (b" \n-----BEGIN CERTIFICATE-----", "set the type to PEM"),
        (GOLDEN["key.jceks"], "JCEKS are not read"),
    ],
)
def test_other_files_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        key_pem(data, PASSWORD, "")
    with pytest.raises(ValueError, match=reason):
        trust_pem(data, PASSWORD)


def test_store_must_have_one_key() -> None:
    with pytest.raises(ValueError, match="one private key, and has 0"):
        key_pem(GOLDEN["trust.jks"], PASSWORD, "")
    entry = GOLDEN["key.jks"][12:-20]
    with pytest.raises(ValueError, match="one private key, and has 2"):
        key_pem(jks(entry, entry, password=PASSWORD), PASSWORD, KEY_PASSWORD)


def test_trust_store_must_not_be_empty() -> None:
    with pytest.raises(ValueError, match="holds no certificates"):
        trust_pem(jks(password=PASSWORD), PASSWORD)
    assert certificates(trust_pem(jks(trusted(CA)), "")) == [CA]


def test_keys_of_pkcs12_have_no_other_password() -> None:
    with pytest.raises(ValueError, match="password of the store, no other one"):
        key_pem(GOLDEN["key.p12"], PASSWORD, KEY_PASSWORD)
    pytest.importorskip("cryptography")
    with pytest.raises(ValueError, match="one private key, and has 0"):
        key_pem(GOLDEN["trust.p12"], PASSWORD, "")
