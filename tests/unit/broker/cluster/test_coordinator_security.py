"""Encryption and login at the coordinator: `broker.cluster.coordinator_security`, and its keys."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cluster.coordinator_security import coordinator_security
from broker.config.broker_config import BrokerConfig
from broker.config.coordinator_keys import CoordinatorKeys, coordinator_keys_of, store_type
from broker.errors import ConfigError, StartupError
from coordination.client import Login
from tests.certificates import Authority, needs_openssl

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
LOGIN = "java.security.auth.login.config"
TLS = {"zookeeper.ssl.client.enable": "true"}


def keys_of(properties: dict[str, str]) -> CoordinatorKeys:
    return BrokerConfig.from_properties(properties).coordinator


def login_file(directory: Path, text: str) -> str:
    path = directory / "login.conf"
    path.write_text(text)
    return str(path)


def test_the_keys_are_found_among_others() -> None:
    found = coordinator_keys_of({"broker.id": "x", "zookeeper.set.acl": "true"})
    assert found == CoordinatorKeys(zookeeper_set_acl=True)
    with pytest.raises(ValueError, match=r"zookeeper\.set\.acl"):
        coordinator_keys_of({"zookeeper.set.acl": "perhaps"})


def test_by_default_there_is_no_security() -> None:
    security = coordinator_security(keys_of({}))
    assert (security.tls, security.login, security.has_acl) == (None, None, False)


def test_the_login_is_in_the_section_client(tmp_path: Path) -> None:
    path = login_file(
        tmp_path,
        f'Server {{ {DIGEST} user_b="x"; }};Client {{ {DIGEST} username="b" password="s3cret"; }};',
    )
    security = coordinator_security(keys_of({LOGIN: path, "zookeeper.set.acl": "true"}))
    assert security.login == Login(user="b", password="s3cret")
    assert security.has_acl
    assert "s3cret" not in repr(security)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a section Client"),
        (f'Client {{ {DIGEST} username="b"; }};', "must have a section Client"),
        ('Client { a.Krb5 required username="b" password="s3cret"; };', "must have a section"),
        (f'Client {{ {DIGEST} password="s3cret }};', "not allowed at position"),
    ],
)
def test_a_wrong_login_file_refuses_the_start(tmp_path: Path, text: str, message: str) -> None:
    keys = keys_of({LOGIN: login_file(tmp_path, text)})
    with pytest.raises(StartupError, match=message) as caught:
        coordinator_security(keys)
    assert "s3cret" not in str(caught.value)


def test_a_login_file_must_be_readable_text(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="cannot be read: No such file"):
        coordinator_security(keys_of({LOGIN: str(tmp_path / "absent")}))
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(StartupError, match="is not UTF-8"):
        coordinator_security(keys_of({LOGIN: str(tmp_path / "bytes")}))


def test_lists_need_an_identity() -> None:
    for properties in ({}, TLS, {"zookeeper.ssl.keystore.location": "unused.pem"}):
        keys = keys_of({"zookeeper.set.acl": "true", **properties})
        with pytest.raises(StartupError, match=r"zookeeper\.set\.acl needs an identity"):
            coordinator_security(keys)


@needs_openssl
async def test_a_certificate_is_an_identity(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    stores = {
        "zookeeper.ssl.keystore.location": str(authority.issue("broker").store),
        "zookeeper.ssl.truststore.location": str(authority.own.store),
    }
    security = coordinator_security(keys_of({**TLS, **stores, "zookeeper.set.acl": "true"}))
    assert security.tls is not None
    assert security.tls().verify_mode is ssl.CERT_REQUIRED
    assert security.tls().check_hostname
    unchecked = {"zookeeper.ssl.endpoint.identification.algorithm": ""}
    security = coordinator_security(keys_of({**TLS, **stores, **unchecked}))
    assert security.tls is not None
    assert not security.tls().check_hostname


def make_tls(directory: Path) -> tuple[Authority, Path, Callable[[], ssl.SSLContext]]:
    """Return an authority, the key store of a broker, and its TLS towards the coordinator."""
    authority = Authority.make(directory)
    store = authority.issue("broker").store
    stores = {
        "zookeeper.ssl.keystore.location": str(store),
        "zookeeper.ssl.truststore.location": str(authority.own.store),
    }
    tls = coordinator_security(keys_of({**TLS, **stores})).tls
    assert tls is not None
    return authority, store, tls


@needs_openssl
async def test_the_next_connection_gets_a_renewed_certificate(tmp_path: Path) -> None:
    authority, store, tls = make_tls(tmp_path)
    before = tls()
    assert tls() is before
    store.write_text("half a certificate")
    with capture_logs() as logs:
        assert tls() is before
    assert [each["event"] for each in logs] == ["coordinator_certificates.kept"]
    authority.issue("broker")
    assert tls() is not before


@needs_openssl
async def test_files_that_cannot_be_used_are_read_again_after_a_back_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _authority, store, tls = make_tls(tmp_path)
    store.write_text("half a certificate")
    with capture_logs() as logs:
        for _attempt in range(3):
            tls()
    assert len(logs) == 1
    monkeypatch.setattr("broker.cluster.coordinator_security.RETRY_DELAY_S", 0.0)
    store.write_text("another half")
    with capture_logs() as logs:
        for _attempt in range(3):
            tls()
    assert len(logs) == 3


def test_an_error_names_the_whole_key() -> None:
    keys = keys_of({**TLS, "zookeeper.ssl.truststore.location": "/absent.pem"})
    with pytest.raises(StartupError, match=r"zookeeper\.ssl\.truststore\.location"):
        coordinator_security(keys)
    keys = keys_of({**TLS, "zookeeper.ssl.enabled.protocols": "TLSv1"})
    with pytest.raises(StartupError, match=r"zookeeper\.ssl\.enabled\.protocols"):
        coordinator_security(keys)


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"zookeeper.clientCnxnSocket": "org.example.Socket"}, "zookeeper.clientCnxnSocket"),
        (
            {**TLS, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "zookeeper.ssl.client.enable",
        ),
        (
            {"zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"},
            "zookeeper.ssl.endpoint.identification.algorithm",
        ),
        ({"zookeeper.ssl.keystore.type": "BKS"}, "zookeeper.ssl.keystore.type"),
    ],
)
def test_a_wrong_value_is_refused(properties: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        keys_of(properties)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("declared", "location", "expected"),
    [
        ("", "a.pem", "PEM"),
        ("", "a.P12", "PKCS12"),
        ("", "a.jks", "JKS"),
        ("", "a", "JKS"),
        ("PEM", "a.jks", "PEM"),
    ],
)
def test_the_format_of_a_store(declared: str, location: str, expected: str) -> None:
    assert store_type(declared, location) == expected


def test_a_refused_choice_names_the_empty_one() -> None:
    with pytest.raises(ConfigError, match=r"one of \(empty\), JKS, PKCS12, PEM"):
        keys_of({"zookeeper.ssl.keystore.type": "ZIP"})
