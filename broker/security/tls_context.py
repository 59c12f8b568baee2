"""TLS contexts from the keys of a listener (edge).

A context never changes: changed files make a new one, and open connections keep theirs.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker.config.listener_security import ListenerSecurityConfig
from broker.errors import ConfigError
from trust.tls_alert import ServerContext
from trust.tls_store import (
    SERVER_CIPHERS,
    KeySource,
    StoreError,
    TrustSource,
    limit_ciphers,
    load_key,
    load_trust,
)

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The context for the clients of a listener, and the certificate that it shows, in DER."""

    context: ssl.SSLContext
    certificate: bytes


def server_tls(config: ListenerSecurityConfig) -> ServerTls:
    """Return the TLS of a listener.

    Raises:
        ConfigError: a key is missing or contradicts another one, or a file cannot be used.
    """
    keys = config.keys
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    set_versions(context, config.keys.ssl_enabled_protocols, config.prefix)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_ciphers(context, config, SERVER_CIPHERS)
    certificate = _load_key(context, config)
    if certificate is None:
        rule = "must be set, or ssl.keystore.key and ssl.keystore.certificate.chain"
        raise ConfigError(f"{config.prefix}ssl.keystore.location", None, rule)
    context.verify_mode = CLIENT_AUTH[keys.ssl_client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        # A resumed session would keep a certificate whose authority is not trusted any more.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        _load_trust(context, config)
    return ServerTls(context, certificate)


def client_context(config: ListenerSecurityConfig) -> ssl.SSLContext:
    """Return the context for connections to the same listener of other brokers.

    Raises:
        ConfigError: as `server_tls`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    set_versions(context, config.keys.ssl_enabled_protocols, config.prefix)
    _set_ciphers(context, config)
    context.check_hostname = config.keys.ssl_endpoint_identification_algorithm == "https"
    _load_key(context, config)
    _load_trust(context, config)
    return context


def set_versions(context: ssl.SSLContext, enabled: Sequence[str], prefix: str) -> None:
    """Enable versions of TLS; `prefix` is that of the key.

    Raises:
        ConfigError: one is unknown, or not safe.
    """
    if not enabled or not set(enabled) <= VERSIONS.keys():
        rule = f"must be a list of {', '.join(VERSIONS)}: older versions are not safe"
        raise ConfigError(f"{prefix}ssl.enabled.protocols", ",".join(enabled), rule)
    versions = [VERSIONS[each] for each in enabled]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_ciphers(
    context: ssl.SSLContext, config: ListenerSecurityConfig, default: str | None = None
) -> None:
    names = config.keys.ssl_cipher_suites
    if names:
        with as_config_error(config.prefix):
            limit_ciphers(context, names)
    elif default is not None:
        context.set_ciphers(default)


def _load_key(context: ssl.SSLContext, config: ListenerSecurityConfig) -> bytes | None:
    """Load the private key and its certificates; return the first one, None without any."""
    keys = config.keys
    source = KeySource(
        type=keys.ssl_keystore_type,
        location=keys.ssl_keystore_location,
        password=keys.ssl_keystore_password,
        key=keys.ssl_keystore_key,
        certificate_chain=keys.ssl_keystore_certificate_chain,
        key_password=keys.ssl_key_password,
    )
    with as_config_error(config.prefix):
        return load_key(context, source)


def _load_trust(context: ssl.SSLContext, config: ListenerSecurityConfig) -> None:
    """Load the trusted certificates; if none are configured, the certificates of the system."""
    keys = config.keys
    source = TrustSource(
        type=keys.ssl_truststore_type,
        location=keys.ssl_truststore_location,
        password=keys.ssl_truststore_password,
        certificates=keys.ssl_truststore_certificates,
    )
    with as_config_error(config.prefix):
        load_trust(context, source)


@contextmanager
def as_config_error(prefix: str) -> Iterator[None]:
    """Raise a ConfigError, with the whole key, for a store that cannot be used."""
    try:
        yield
    except StoreError as error:
        raise ConfigError(f"{prefix}{error.key}", error.shown, error.rule) from None
