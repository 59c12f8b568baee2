"""TLS contexts of listeners: `broker.security.tls_context`."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config.listener_security import ListenerSecurityConfig
from broker.config.listener_security_keys import ListenerSecurityKeys
from broker.errors import ConfigError
from broker.security.tls_context import client_context, server_tls
from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD
from tests.unit.trust.test_tls_store import hands_shake
from trust.cipher_suite import TLS_1_3

SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
ALL_OF_1_3 = tuple(sorted(TLS_1_3))


def config(
    folder: Path, *suites: str, protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
) -> ListenerSecurityConfig:
    for name in ("key.jks", "trust.jks"):
        (folder / name).write_bytes(GOLDEN[name])
    return ListenerSecurityConfig(
        listener_name="OUTER",
        protocol="SSL",
        keys=ListenerSecurityKeys(
            ssl_keystore_location=str(folder / "key.jks"),
            ssl_keystore_password=PASSWORD,
            ssl_key_password=KEY_PASSWORD,
            ssl_truststore_location=str(folder / "trust.jks"),
            ssl_cipher_suites=suites,
            ssl_enabled_protocols=protocols,
        ),
        mechanisms={},
    )


def suites_of(context: ssl.SSLContext, version: str) -> list[str]:
    found = [each["name"] for each in context.get_ciphers() if each["protocol"] == version]
    return sorted(map(str, found))


def test_by_default_two_versions_with_authenticated_encryption_are_served(tmp_path: Path) -> None:
    context = server_tls(config(tmp_path)).context
    assert len(suites_of(context, "TLSv1.2")) == 6
    assert (context.minimum_version, context.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )


@pytest.mark.parametrize("make", [lambda each: server_tls(each).context, client_context])
def test_a_suite_of_tls_1_2_excludes_all_others(
    tmp_path: Path, make: Callable[[ListenerSecurityConfig], ssl.SSLContext]
) -> None:
    context = make(config(tmp_path, SUITE))
    assert suites_of(context, "TLSv1.2") == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_the_suites_of_tls_1_3_exclude_tls_1_2(tmp_path: Path) -> None:
    context = server_tls(config(tmp_path, *ALL_OF_1_3)).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_suites_of_both_versions_leave_both(tmp_path: Path) -> None:
    context = server_tls(config(tmp_path, *ALL_OF_1_3, SUITE)).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3


def test_sides_with_different_suites_do_not_meet(tmp_path: Path) -> None:
    server = server_tls(config(tmp_path, SUITE)).context
    assert hands_shake(server, client_context(config(tmp_path, SUITE)))
    other = client_context(config(tmp_path, "ECDHE-ECDSA-AES256-GCM-SHA384"))
    with pytest.raises(ssl.SSLError):
        hands_shake(server, other)


@pytest.mark.parametrize(
    ("suites", "protocols", "rule"),
    [
        pytest.param(("RC4-MD5",), ("TLSv1.2",), "'RC4-MD5' is not served", id="unknown"),
        pytest.param(ALL_OF_1_3[:1], ("TLSv1.3",), "add TLS_AES_256", id="some of TLS 1.3"),
        pytest.param((SUITE,), ("TLSv1.3",), "no suite of the enabled versions", id="only 1.2"),
        pytest.param(ALL_OF_1_3, ("TLSv1.2",), "no suite of the enabled versions", id="only 1.3"),
    ],
)
def test_suites_that_cannot_be_served_are_refused_with_the_key(
    tmp_path: Path, suites: tuple[str, ...], protocols: tuple[str, ...], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        server_tls(config(tmp_path, *suites, protocols=protocols))
    assert caught.value.key == "listener.name.outer.ssl.cipher.suites"
    assert "\n" not in str(caught.value)
