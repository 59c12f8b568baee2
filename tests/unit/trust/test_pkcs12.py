"""Stores of type PKCS12: `trust.pkcs12`."""

import sys

import pytest

from tests.unit.trust.stores import GOLDEN, PASSWORD, der
from trust.pkcs12 import MAX_DEPTH, MAX_ITERATIONS, parse_pkcs12

pytest.importorskip("cryptography")

CA, OWN = GOLDEN["ca.der"], GOLDEN["b.der"]
SALT = der(0x04, b"pepper")


def integer(value: int) -> bytes:
    return der(0x02, value.to_bytes(9, "big"))


@pytest.mark.parametrize(
    ("name", "trust"),
    [
        ("key.p12", (OWN,)),
        ("openssl-key.p12", (OWN,)),
        ("both.p12", (OWN, CA)),
        ("old.p12", (OWN,)),
    ],
)
def test_key_comes_with_its_chain(name: str, trust: tuple[bytes, ...]) -> None:
    store = parse_pkcs12(GOLDEN[name], PASSWORD)
    assert store.key is not None
    assert store.chain == (OWN, CA)
    assert store.trusted == trust
    assert "key" not in repr(store)


@pytest.mark.parametrize("name", ["trust.p12", "openssl-trust.p12"])
def test_certificates_without_a_key_are_trusted(name: str) -> None:
    store = parse_pkcs12(GOLDEN[name], PASSWORD)
    assert (store.key, store.chain, store.trusted) == (None, (), (CA,))


@pytest.mark.parametrize("password", ["", "other", "pässword"])
def test_wrong_password_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="password is wrong"):
        parse_pkcs12(GOLDEN["key.p12"], password)


def test_cost_of_opening_is_limited() -> None:
    """The check of integrity alone would take hours."""
    costly = der(0x30, SALT, integer(MAX_ITERATIONS + 1))
    for data in (
        costly,
        der(0x30, integer(3), costly),
        # Wrapped as the parts of a store are, with garbage behind.
        der(0x30, der(0xA0, der(0x04, der(0x30, costly), b"\xff"))),
    ):
        with pytest.raises(ValueError, match="more than 1000000 hashes"):
            parse_pkcs12(data, PASSWORD)
    allowed = der(0x30, SALT, integer(MAX_ITERATIONS), SALT, SALT)
    with pytest.raises(ValueError, match="password is wrong"):
        parse_pkcs12(allowed, PASSWORD)


@pytest.mark.parametrize("tail", [b"\0\0", der(0x05)], ids=["zeros", "a value"])
def test_a_store_with_a_tail_is_opened_without_a_warning(tail: bytes) -> None:
    store = parse_pkcs12(GOLDEN["key.p12"] + tail, PASSWORD)
    assert store.chain == (OWN, CA)


def test_depth_is_limited() -> None:
    deep = b""
    for _ in range(MAX_DEPTH + 2):
        deep = der(0x30, deep)
    with pytest.raises(ValueError, match="too many levels"):
        parse_pkcs12(deep, PASSWORD)


def test_unserved_algorithm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import pkcs12

    def refuse(_data: bytes, _password: bytes | None) -> None:
        raise UnsupportedAlgorithm("RC5")

    monkeypatch.setattr(pkcs12, "load_pkcs12", refuse)
    with pytest.raises(ValueError, match="algorithm that is not served"):
        parse_pkcs12(GOLDEN["key.p12"], PASSWORD)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ValueError, match=r"install ottla\[security\]"):
        parse_pkcs12(GOLDEN["key.p12"], PASSWORD)
