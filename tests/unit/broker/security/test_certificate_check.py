"""New certificates of running listeners: `broker.security.certificate_check`."""

from __future__ import annotations

import pytest

from broker.config.listener_security import ListenerSecurityConfig
from broker.config.listener_security_keys import ListenerSecurityKeys
from broker.errors import ConfigError
from broker.security.certificate_check import check_identity
from tests.certificates import Authority, Certificate, needs_openssl
from trust.pem import first_certificate

pytestmark = needs_openssl

HOSTS = "DNS:a,DNS:b"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


def der(made: Certificate) -> bytes:
    return first_certificate(made.certificate.read_bytes())


def listener(*, dn: bool = False, san: bool = False) -> ListenerSecurityConfig:
    keys = ListenerSecurityKeys(
        ssl_keystore_location="store.pem", ssl_allow_dn_changes=dn, ssl_allow_san_changes=san
    )
    return ListenerSecurityConfig(listener_name="OUTER", protocol="SSL", keys=keys, mechanisms={})


@pytest.mark.parametrize(
    ("subject", "hosts"), [("/CN=X", HOSTS), ("/CN=x", HOSTS), ("/CN=X", f"{HOSTS},DNS:c")]
)
def test_the_same_subject_with_all_names_is_accepted(
    authority: Authority, subject: str, hosts: str
) -> None:
    old = der(authority.issue("old", subject="/CN=X", hosts=HOSTS))
    check_identity(old, der(authority.issue("new", subject=subject, hosts=hosts)), listener())


def test_a_change_needs_the_permission_of_its_key(authority: Authority) -> None:
    old = der(authority.issue("old", subject="/CN=X", hosts=HOSTS))
    new = der(authority.issue("new", subject="/CN=Y", hosts="DNS:b"))
    check_identity(old, new, listener(dn=True, san=True))
    key = "listener.name.outer.ssl.keystore.location=store.pem: "
    with pytest.raises(ConfigError) as caught:
        check_identity(old, new, listener(san=True))
    assert str(caught.value) == (
        f"{key}has a certificate for CN=Y in place of CN=X: ssl.allow.dn.changes=false"
    )
    with pytest.raises(ConfigError) as caught:
        check_identity(old, new, listener(dn=True))
    assert str(caught.value) == (
        f"{key}has a certificate without DNS:a: ssl.allow.san.changes=false"
    )
