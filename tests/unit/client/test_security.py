"""The options for secured clusters: `ottla.client.security`."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.client_config import NO_SECURITY
from ottla.client.errors import AuthenticationFailedError, ConfigurationError
from ottla.client.security import security_of

PASSWORD = "correct s3cret horse"
SUITE = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
SCRAM: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


class Provider:
    """Provides a token, or raises it."""

    def __init__(self, token: Any = "a.b.c") -> None:
        self._token = token

    async def token(self) -> str:
        if isinstance(self._token, BaseException):
            raise self._token
        token: str = self._token
        return token


def test_without_options_nothing_is_secured() -> None:
    assert security_of() == NO_SECURITY
    assert security_of(security_protocol="PLAINTEXT") == NO_SECURITY


def test_tls_verifies_certificate_and_host() -> None:
    context = security_of(security_protocol="SSL").tls
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_host_is_not_checked_on_request() -> None:
    context = security_of(security_protocol="SSL", ssl_check_hostname=False).tls
    assert context is not None
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("name", ["ECDHE-RSA-AES128-GCM-SHA256", SUITE])
def test_cipher_suites_are_limited_on_request(name: str) -> None:
    context = security_of(security_protocol="SSL", ssl_ciphers=name).tls
    assert context is not None
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    found = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert found == ["ECDHE-RSA-AES128-GCM-SHA256"]


def test_a_cipher_suite_that_is_not_served_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ssl_ciphers 'RC4-MD5' must be a list of"):
        security_of(security_protocol="SSL", ssl_ciphers="RC4-MD5")


def test_a_context_of_the_caller_is_used_as_it_is() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert security_of(security_protocol="SSL", ssl_context=context).tls is context


async def test_each_connection_begins_an_exchange_of_its_own() -> None:
    sasl = security_of(**SCRAM).sasl
    assert sasl is not None
    one, other = await sasl.begin(), await sasl.begin()
    assert one.first().startswith(b"n,,n=alice,r=")
    assert one.first() != other.first()


async def test_a_token_is_provided_for_each_connection() -> None:
    sasl = security_of(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    ).sasl
    assert sasl is not None
    assert b"auth=Bearer a.b.c" in (await sasl.begin()).first()


@pytest.mark.parametrize(
    "token", [OSError("hush"), asyncio.CancelledError(), None, "", "a\x01auth=b", "\xe4"]
)
async def test_a_provider_without_a_token_fails_the_authentication(token: Any) -> None:
    sasl = security_of(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(token),
    ).sasl
    assert sasl is not None
    with pytest.raises(AuthenticationFailedError, match="sasl_oauth_token_provider") as caught:
        await sasl.begin()
    # The provider's own error is the cause, for its author.
    assert "hush" not in str(caught.value)


def test_no_secret_is_shown() -> None:
    assert PASSWORD not in repr(security_of(**SCRAM))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"security_protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"sasl_user": "alice"}, "no option 'sasl_user'"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile needs security_protocol SSL or SASL_SSL"),
        ({"security_protocol": "PLAINTEXT"}, "needs security_protocol SASL"),
        ({"sasl_mechanism": "GSSAPI"}, "must be one of PLAIN, SCRAM-SHA-256"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        ({"sasl_plain_password": ""}, "needs sasl_plain_password"),
        ({"sasl_plain_password": b"bytes"}, "needs sasl_plain_password"),
        ({"sasl_plain_username": "\ud800"}, "UTF-8"),
        ({"sasl_plain_username": "a\0b"}, "NUL"),
        ({"security_protocol": "SASL_SSL", "ssl_cafile": "/missing"}, "'/missing' cannot be read"),
        ({"security_protocol": "SASL_SSL", "ssl_keyfile": "/missing"}, "needs its certificate"),
        ({"security_protocol": "SASL_SSL", "ssl_certfile": "/missing"}, "'/missing' and its key"),
        (
            {
                "security_protocol": "SASL_SSL",
                "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                "ssl_cafile": "ca.pem",
            },
            "exclude each other",
        ),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        security_of(**{**SCRAM, **changes})
    assert PASSWORD not in str(caught.value)


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        security_of(security_protocol="SSL", ssl_cafile=str(path))


@pytest.mark.parametrize("client", [ottla.Admin, ottla.Consumer, ottla.Producer])
async def test_every_client_takes_the_options(client: Any) -> None:
    client("h:1", **SCRAM)
    with pytest.raises(ConfigurationError, match="no option 'sasl_password'"):
        client("h:1", sasl_password=PASSWORD)
