"""TLS contexts from the keys of a listener (edge).

A context never changes: changed files make a new one, and open connections keep theirs. Inline PEM
passes through memory only.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.config.listener_security import ListenerSecurityConfig
from broker.config.listener_security_keys import ListenerSecurityKeys
from broker.errors import ConfigError
from broker.security.pem import normalised

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
CONVERT: Final = (
    "must be PEM: other stores are not read; convert one by `openssl pkcs12 -in STORE.p12 -noenc "
    "-out STORE.pem` (for JKS, `keytool -importkeystore -deststoretype PKCS12` comes first)"
)


def server_context(config: ListenerSecurityConfig) -> ssl.SSLContext:
    """Return the context for the clients of a listener.

    Raises:
        ConfigError: a key is missing or contradicts another one, or a file cannot be used.
    """
    keys = config.keys
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, config)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not _load_key(context, config):
        rule = "must be set, or ssl.keystore.key and ssl.keystore.certificate.chain"
        raise ConfigError(f"{config.prefix}ssl.keystore.location", None, rule)
    context.verify_mode = CLIENT_AUTH[keys.ssl_client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        # A resumed session would keep a certificate whose authority is not trusted any more.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        _load_trust(context, config)
    return context


def client_context(config: ListenerSecurityConfig) -> ssl.SSLContext:
    """Return the context for connections to the same listener of other brokers.

    Raises:
        ConfigError: as `server_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, config)
    context.check_hostname = config.keys.ssl_endpoint_identification_algorithm == "https"
    _load_key(context, config)
    _load_trust(context, config)
    return context


def _set_versions(context: ssl.SSLContext, config: ListenerSecurityConfig) -> None:
    enabled = config.keys.ssl_enabled_protocols
    if not enabled or not set(enabled) <= VERSIONS.keys():
        rule = f"must be a list of {', '.join(VERSIONS)}: older versions are not safe"
        raise ConfigError(f"{config.prefix}ssl.enabled.protocols", ",".join(enabled), rule)
    versions = [VERSIONS[each] for each in enabled]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _load_key(context: ssl.SSLContext, config: ListenerSecurityConfig) -> bool:
    """Load the private key and its certificates; return whether there are any."""
    keys, prefix = config.keys, f"{config.prefix}ssl.keystore."
    key, chain = keys.ssl_keystore_key, keys.ssl_keystore_certificate_chain
    if not keys.ssl_keystore_location and not key and not chain:
        return False
    if keys.ssl_keystore_type != "PEM":
        raise ConfigError(f"{prefix}type", keys.ssl_keystore_type, CONVERT)
    if keys.ssl_keystore_password:
        rule = "must not be set for PEM; ssl.key.password is the password of the key"
        raise ConfigError(f"{prefix}password", None, rule)
    if keys.ssl_keystore_location and (key or chain):
        raise ConfigError(f"{prefix}location", None, "excludes ssl.keystore.key and its chain")
    if not keys.ssl_keystore_location and not (key and chain):
        raise ConfigError(f"{prefix}key", None, "needs ssl.keystore.certificate.chain, and it this")
    with _file_of(keys.ssl_keystore_location, key + "\n" + chain, f"{prefix}key") as path:
        _load_chain(context, path, keys, prefix)
    return True


def _load_chain(
    context: ssl.SSLContext, path: str, keys: ListenerSecurityKeys, prefix: str
) -> None:
    name = f"{prefix}location" if keys.ssl_keystore_location else f"{prefix}key"
    shown = keys.ssl_keystore_location or None
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(path, password=lambda: keys.ssl_key_password)
    except ssl.SSLError as error:
        rule = f"cannot be used ({_reason(error)}): check the key, its chain and ssl.key.password"
        raise ConfigError(name, shown, rule) from None
    except OSError as error:
        raise ConfigError(name, shown, f"cannot be read: {error.strerror}") from None


def _load_trust(context: ssl.SSLContext, config: ListenerSecurityConfig) -> None:
    """Load the trusted certificates; if none are configured, the certificates of the system."""
    keys, prefix = config.keys, f"{config.prefix}ssl.truststore."
    location, inline = keys.ssl_truststore_location, keys.ssl_truststore_certificates
    if not location and not inline:
        context.load_default_certs()
        return
    if keys.ssl_truststore_type != "PEM":
        raise ConfigError(f"{prefix}type", keys.ssl_truststore_type, CONVERT)
    if keys.ssl_truststore_password:
        raise ConfigError(f"{prefix}password", None, "must not be set for PEM")
    if location and inline:
        raise ConfigError(f"{prefix}location", None, "excludes ssl.truststore.certificates")
    with _file_of(location, inline, f"{prefix}certificates") as path:
        try:
            context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            rule = f"holds no certificates ({_reason(error)})"
            raise ConfigError(f"{prefix}location", location or None, rule) from None
        except OSError as error:
            rule = f"cannot be read: {error.strerror}"
            raise ConfigError(f"{prefix}location", location, rule) from None


@contextmanager
def _file_of(location: str, inline: str, key: str) -> Iterator[str]:
    """Yield the path of a PEM file, or of one in memory that holds `inline`."""
    if location:
        yield location
        return
    try:
        text = normalised(inline)
    except ValueError as error:
        raise ConfigError(key, None, f"cannot be used: {error}") from None
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "malformed").lower().replace("_", " ")
