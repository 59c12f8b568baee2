"""The options for secured clusters: TLS and authentication (edge).

The options have the names of aiokafka and kafka-python. Certificates and keys are read once, when
the client is configured.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypedDict

from kafkawire.sasl_clients import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from kafkawire.scram import HASHES
from ottla.client.background import is_cancellation
from ottla.client.client_config import Sasl, Security
from ottla.client.errors import (
    AuthenticationFailedError,
    ConfigurationError,
    TokenProviderError,
)

if TYPE_CHECKING:
    from typing import Unpack

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", *HASHES, "OAUTHBEARER")
SCRAM_NONCE_BYTES: Final = 24


class TokenProvider(Protocol):
    """Provides OAUTHBEARER tokens; aiokafka's AbstractTokenProvider is one."""

    def token(self) -> Awaitable[str]:
        """Return a token that is valid now."""
        ...


class SecurityOptions(TypedDict, total=False):
    """The options that producer, consumer and admin client share."""

    security_protocol: SecurityProtocol
    """The protocol of the brokers' listener; the default is PLAINTEXT."""
    ssl_context: ssl.SSLContext
    """TLS settings of your own, instead of all `ssl_` options."""
    ssl_cafile: str
    """PEM file of trusted certificate authorities; the default is the system's."""
    ssl_certfile: str
    """PEM file with the client's certificate and its chain."""
    ssl_keyfile: str
    """PEM file with the client's key, unless `ssl_certfile` has it."""
    ssl_password: str
    """Password of the key."""
    ssl_check_hostname: bool
    """Whether the broker's certificate must be for its host; the default is true."""
    ssl_ciphers: str
    """Names of cipher suites, of OpenSSL or Java, between colons or commas."""
    sasl_mechanism: SaslMechanism
    """The mechanism of authentication; SASL_PLAINTEXT and SASL_SSL need it."""
    sasl_plain_username: str
    """The user of PLAIN and SCRAM."""
    sasl_plain_password: str
    """The user's password."""
    sasl_oauth_token_provider: TokenProvider
    """Provides the tokens of OAUTHBEARER."""


def security_of(**options: Unpack[SecurityOptions]) -> Security:
    """Return the settings for the connections.

    Raises:
        ConfigurationError: an option is unknown, missing, or contradicts another one, or a file
            cannot be read.
    """
    if unknown := options.keys() - SecurityOptions.__annotations__.keys():
        raise ConfigurationError(f"there is no option {min(unknown)!r}: check its spelling")
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise ConfigurationError(
            f"security_protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}"
        )
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    for name in options:
        if (name.startswith("ssl_") and not has_tls) or (name.startswith("sasl_") and not has_sasl):
            wanted = "SSL or SASL_SSL" if name.startswith("ssl_") else "SASL_SSL or SASL_PLAINTEXT"
            raise ConfigurationError(
                f"{name} needs security_protocol {wanted}, but it is {protocol}: the option would "
                "have no effect"
            )
    return Security(_tls(options) if has_tls else None, _sasl(options) if has_sasl else None)


def _tls(options: SecurityOptions) -> ssl.SSLContext:
    context = options.get("ssl_context")
    if context is not None:
        if others := [name for name in options if name[:4] == "ssl_" and name != "ssl_context"]:
            raise ConfigurationError(f"ssl_context and {others[0]} exclude each other: give one")
        return context
    if "ssl_certfile" not in options and ("ssl_keyfile" in options or "ssl_password" in options):
        raise ConfigurationError("a key needs its certificate: give ssl_certfile, too")
    # Not create_default_context: since Python 3.13 it refuses the authorities of many test systems.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = options.get("ssl_check_hostname", True)
    _limit_ciphers(context, options)
    trusted = options.get("ssl_cafile")
    try:
        if trusted is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cafile=trusted)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"ssl_cafile {trusted!r} cannot be read: {error}") from None
    certificate = options.get("ssl_certfile")
    if certificate is not None:
        password = options.get("ssl_password", "")
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, options.get("ssl_keyfile"), lambda: password)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"ssl_certfile {certificate!r} and its key cannot be read: {error}. Check the "
                "files, and ssl_password"
            ) from None
    return context


def _limit_ciphers(context: ssl.SSLContext, options: SecurityOptions) -> None:
    if "ssl_ciphers" not in options:
        return
    # Not at the top: most clients have no use for it.
    from trust.cipher_suite import suite_names
    from trust.tls_store import StoreError, limit_ciphers

    try:
        limit_ciphers(context, suite_names(options["ssl_ciphers"]))
    except StoreError as error:
        raise ConfigurationError(f"ssl_ciphers {error.shown!r} {error.rule}") from None


def _sasl(options: SecurityOptions) -> Sasl:
    mechanism = options.get("sasl_mechanism")
    if mechanism not in MECHANISMS:
        raise ConfigurationError(
            f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, got {mechanism!r}"
        )
    if mechanism == "OAUTHBEARER":
        provider = options.get("sasl_oauth_token_provider")
        if provider is None:
            raise ConfigurationError("OAUTHBEARER needs sasl_oauth_token_provider")
        return Sasl(mechanism, lambda: _begin_with_token(provider))
    username = _credential(options.get("sasl_plain_username"), "sasl_plain_username", mechanism)
    password = _credential(options.get("sasl_plain_password"), "sasl_plain_password", mechanism)
    return Sasl(mechanism, lambda: _begin_with_password(mechanism, username, password))


def _credential(text: object, name: str, mechanism: str) -> str:
    if not isinstance(text, str) or not text:
        raise ConfigurationError(f"{mechanism} needs {name}, a str that is not empty")
    try:
        is_legal = b"\0" not in text.encode()
    except UnicodeEncodeError:
        is_legal = False
    if not is_legal:
        raise ConfigurationError(f"{name} must be encodable as UTF-8, without the character NUL")
    return text


async def _begin_with_token(provider: TokenProvider) -> SaslClient:
    try:
        token: object = await provider.token()
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error):
            raise
        # Its text may have parts of the token or of the password that bought it.
        name = type(error).__name__
        raise TokenProviderError(f"sasl_oauth_token_provider raised {name}") from error
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise AuthenticationFailedError("sasl_oauth_token_provider provided no printable str")
    return OAuthBearerClient(token)


async def _begin_with_password(mechanism: str, username: str, password: str) -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(username, password)
    nonce = secrets.token_urlsafe(SCRAM_NONCE_BYTES)
    return ScramClient(mechanism, username, password, nonce)
