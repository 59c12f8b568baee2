"""Java's key stores: `trust.jks`."""

import pytest

from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD, der, jks, key, trusted
from trust.jks import MAX_CHAIN, MAX_ENTRIES, JksKey, parse_jks

CA, OWN = GOLDEN["ca.der"], GOLDEN["b.der"]
PROTECTED = parse_jks(GOLDEN["key.jks"], PASSWORD).keys[0].protected


def test_entries_of_keytool_are_read() -> None:
    store = parse_jks(GOLDEN["key.jks"], PASSWORD)
    assert [each.chain for each in store.keys] == [(OWN, CA)]
    assert store.certificates == ()
    assert parse_jks(GOLDEN["trust.jks"], PASSWORD).certificates == (CA,)


def test_key_needs_its_own_password() -> None:
    [found] = parse_jks(GOLDEN["key.jks"], PASSWORD).keys
    # PKCS#8 begins with its version, 0.
    assert found.decrypted(KEY_PASSWORD)[:1] == b"\x30"
    for wrong in (PASSWORD, "", "\ud800"):
        with pytest.raises(ValueError, match="password of the key is wrong"):
            found.decrypted(wrong)
    assert "protected" not in repr(found)


def test_store_without_a_password_is_not_verified() -> None:
    changed = jks(trusted(CA), password="other")
    assert parse_jks(changed, "").certificates == (CA,)
    with pytest.raises(ValueError, match="password is wrong"):
        parse_jks(changed, PASSWORD)


def test_first_version_has_no_types_of_certificates() -> None:
    # Tag, alias, date, and the length of the certificate.
    entry = trusted(CA).replace(b"\x00\x05X.509", b"")
    assert parse_jks(jks(entry, version=1), "").certificates == (CA,)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut off"),
        (jks(version=3), "not a JKS store"),
        (jks(count=MAX_ENTRIES + 1), "more than 10000"),
        (jks(trusted(CA), count=2), "cut off"),
        (jks(trusted(CA), b"\0"), "cut off"),
        (jks(trusted(CA), b"\0", count=1), "more data than entries"),
        (jks(trusted(CA, tag=3)), "unknown type 3"),
        (jks(trusted(CA, kind=b"PGP")), "not of type X.509"),
        (jks(key(PROTECTED, count=MAX_CHAIN + 1)), "more than 100"),
        (jks(key(PROTECTED, OWN, count=2**31)), "more than 100"),
    ],
)
def test_malformed_stores_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_jks(data, "")


@pytest.mark.parametrize(
    ("protected", "reason"),
    [
        (b"", "unpack"),
        (der(0x30, der(0x30, der(0x06, b"\x2a")), der(0x04, b"")), "an algorithm that"),
        (PROTECTED[:-1], "cut off"),
        (der(0x30, PROTECTED[2:18], der(0x04, bytes(10))), "password of the key is wrong"),
    ],
)
def test_malformed_keys_are_refused(protected: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        JksKey(protected, ()).decrypted(KEY_PASSWORD)
