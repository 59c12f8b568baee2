"""Keys and trust in TLS contexts: `trust.tls_store`."""

import errno
import os
import ssl
from pathlib import Path

import pytest

from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD
from trust.key_store import MAX_STORE_BYTES, key_pem, trust_pem
from trust.tls_store import KeySource, StoreError, TrustSource, load_key, load_trust

KEY_PEM = key_pem(GOLDEN["key.jks"], PASSWORD, KEY_PASSWORD)
TRUST_PEM = trust_pem(GOLDEN["trust.jks"], PASSWORD)
END = "-----END PRIVATE KEY-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in GOLDEN.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "key.pem").write_text(KEY_PEM)
    (tmp_path / "trust.pem").write_text(TRUST_PEM)
    (tmp_path / "huge.jks").write_bytes(bytes(MAX_STORE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def hands_shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> bool:
    """Run a handshake in memory; return whether both sides have finished it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    ]
    for _ in range(10):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    return not sides


INLINE_KEY = {
    "key": KEY_PEM.partition(END)[0] + END,
    "certificate_chain": KEY_PEM.partition(END)[2],
}


@pytest.mark.parametrize("trust", ["trust.jks", "trust.p12", "trust.pem", "inline"])
@pytest.mark.parametrize("key", ["key.jks", "key.p12", "key.pem", "inline"])
def test_every_kind_of_key_store_meets_every_kind_of_trust_store(
    folder: Path, key: str, trust: str
) -> None:
    if "p12" in key + trust:
        pytest.importorskip("cryptography")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = {
        # Java reads both types of stores under both names.
        "key.jks": KeySource(
            type="PKCS12",
            location=f"{folder}/key.jks",
            password=PASSWORD,
            key_password=KEY_PASSWORD,
        ),
        "key.p12": KeySource(type="JKS", location=f"{folder}/key.p12", password=PASSWORD),
        "key.pem": KeySource(type="PEM", location=f"{folder}/key.pem"),
        "inline": KeySource(type="PEM", **INLINE_KEY),
    }
    trusts = {
        "trust.jks": TrustSource(type="JKS", location=f"{folder}/trust.jks"),
        "trust.p12": TrustSource(type="PKCS12", location=f"{folder}/trust.p12", password=PASSWORD),
        "trust.pem": TrustSource(type="PEM", location=f"{folder}/trust.pem"),
        "inline": TrustSource(type="PEM", certificates=TRUST_PEM.replace("\n", " ")),
    }
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert load_key(server, keys[key])
    load_trust(client, trusts[trust])
    assert hands_shake(server, client)


def test_nothing_configured_is_no_key_and_the_trust_of_the_system() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert not load_key(context, KeySource(type="JKS", password=PASSWORD))
    load_trust(context, TrustSource(type="JKS"))


@pytest.mark.parametrize(
    ("source", "key", "rule"),
    [
        ({"location": "key.jks"}, "password", "must be set for JKS"),
        ({"location": "key.jks", "password": "x"}, "location", "password is wrong"),
        ({"location": "none", "password": "x"}, "location", "cannot be read: No such file"),
        ({"location": ".", "password": "x"}, "location", "cannot be read: Is a directory"),
        ({"location": "huge.jks", "password": "x"}, "location", "more than 16777216 bytes"),
        ({"location": "key.pem", "password": "x"}, "location", "set the type to PEM"),
        ({"type": "BKS", "location": "key.jks"}, "type", "must be one of JKS, PKCS12, PEM"),
        ({"key": KEY_PEM}, "type", "must be PEM for text in the properties"),
        ({"location": "key.jks", "key": "x"}, "location", "excludes ssl.keystore.key"),
        ({"type": "PEM", "location": "key.pem", "password": "x"}, "password", "must not be set"),
        ({"type": "PEM", "key": KEY_PEM}, "key", "needs ssl.keystore.certificate.chain"),
        ({"type": "PEM", "key": "x", "certificate_chain": "x"}, "key", "there is no PEM block"),
        ({"type": "PEM", "location": "key.jks"}, "location", "check the key, its chain"),
        ({"type": "PEM", "location": "none"}, "location", "cannot be read: No such file"),
        ({"type": "PEM", "location": "."}, "location", "cannot be read: Is a directory"),
        ({"type": "PEM", "location": "huge.jks"}, "location", "more than 16777216 bytes"),
        # Reading these might never end.
        ({"type": "PEM", "location": "/dev/null"}, "location", "not a regular file"),
        ({"type": "PEM", "location": "pipe"}, "location", "not a regular file"),
        ({"location": "pipe", "password": "x"}, "location", "not a regular file"),
    ],
)
def test_unusable_keys_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str], key: str, rule: str
) -> None:
    monkeypatch.chdir(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(StoreError, match=rule) as caught:
        load_key(context, KeySource(**{"type": "JKS", **source}))
    assert caught.value.key == f"ssl.keystore.{key}"
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    ("password", "rule"),
    [("s3cret" * 1000, "longer than 1024 bytes"), ("s3cret\udcff", "the password is not UTF-8")],
)
def test_a_password_that_openssl_cannot_take_is_refused(
    tmp_path: Path, password: str, rule: str
) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(
        KEY_PEM.partition(END)[0].encode() + END.encode(), None
    )
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"s3cret"),
    )
    store = tmp_path / "key.pem"
    store.write_bytes(encrypted + KEY_PEM.partition(END)[2].encode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    source = KeySource(type="PEM", location=str(store), key_password=password)
    with pytest.raises(StoreError, match=rule) as caught:
        load_key(context, source)
    assert "s3cret" not in str(caught.value)


def test_a_lack_of_descriptors_is_an_error_of_the_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(_name: str) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "memfd_create", exhausted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(StoreError, match=r"keystore\.location.*Too many open files"):
        load_key(context, KeySource(type="PEM", location=f"{folder}/key.pem"))
    with pytest.raises(StoreError, match=r"truststore\.location.*Too many open files"):
        load_trust(context, TrustSource(type="PEM", location=f"{folder}/trust.pem"))


@pytest.mark.parametrize(
    ("source", "key", "rule"),
    [
        ({"location": "trust.jks", "password": "x"}, "location", "password is wrong"),
        ({"certificates": TRUST_PEM}, "type", "must be PEM for text in the properties"),
        ({"location": "trust.jks", "certificates": "x"}, "location", "excludes"),
        ({"type": "PEM", "location": "trust.pem", "password": "x"}, "password", "must not be set"),
        ({"type": "PEM", "location": "trust.jks"}, "location", "holds no certificates"),
        ({"type": "PEM", "location": "none"}, "location", "cannot be read: No such file"),
        ({"type": "PEM", "certificates": "x"}, "certificates", "there is no PEM block"),
        ({"type": "PEM", "location": "/dev/null"}, "location", "not a regular file"),
        ({"type": "PEM", "location": "pipe"}, "location", "not a regular file"),
    ],
)
def test_unusable_trust_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str], key: str, rule: str
) -> None:
    monkeypatch.chdir(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(StoreError, match=rule) as caught:
        load_trust(context, TrustSource(**{"type": "JKS", **source}))
    assert caught.value.key == f"ssl.truststore.{key}"


def test_representation_shows_no_secret() -> None:
    source = KeySource(type="PEM", password="s3cret", key="s3cret", key_password="s3cret")
    trust = TrustSource(type="JKS", password="s3cret")
    assert "s3cret" not in f"{source} {trust}"
