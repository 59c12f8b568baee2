"""This broker's encryption and login at the coordinator (edge)."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from broker.config.coordinator_keys import CoordinatorKeys, store_type
from broker.errors import ConfigError, StartupError
from broker.security.tls_context import as_config_error, set_versions
from coordination.client import Login
from trust.changing_files import ChangingFiles
from trust.jaas import JaasError
from trust.login_file import read_client_login
from trust.tls_store import KeySource, TrustSource, load_key, load_trust

LOGIN_KEY: Final = "java.security.auth.login.config"
PREFIX: Final = "zookeeper."
RETRY_DELAY_S: Final = 10.0
"""Back-off after files that cannot be used: opening an encrypted key takes time, in the loop."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSecurity:
    """Security of the connection to the coordinator."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns the context for the next connection."""
    login: Login | None = None
    has_acl: bool = False
    """Whether new znodes belong to this broker's identity."""


def coordinator_security(keys: CoordinatorKeys) -> CoordinatorSecurity:
    """Return the security that `keys` describe.

    Raises:
        StartupError: a file cannot be used, or there is no identity for access control lists.
    """
    try:
        tls = CoordinatorTls(keys) if keys.zookeeper_ssl_client_enable else None
    except ConfigError as error:
        raise StartupError(str(error)) from None
    path = keys.java_security_auth_login_config
    login = _login(Path(path)) if path else None
    has_certificate = tls is not None and tls.has_certificate
    if keys.zookeeper_set_acl and login is None and not has_certificate:
        raise StartupError(
            f"zookeeper.set.acl needs an identity: set {LOGIN_KEY}, or "
            "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
    return CoordinatorSecurity(tls=tls, login=login, has_acl=keys.zookeeper_set_acl)


class CoordinatorTls:
    """The TLS context for connections to the coordinator, which follows its files.

    ZooKeeper's client reads them for each connection, so that a renewed certificate needs no
    restart. Files that cannot be used leave the last context in place. They are read again when
    they have changed, or after a back-off: the cause may be outside of them.
    """

    def __init__(self, keys: CoordinatorKeys) -> None:
        """Read the files.

        Raises:
            ConfigError: a file cannot be used.
        """
        self._keys = keys
        stores = keys.zookeeper_ssl_keystore_location, keys.zookeeper_ssl_truststore_location
        self._files = ChangingFiles(Path(each) for each in stores if each)
        self._context, self.has_certificate = _context(keys)
        self._retry_at_s = math.inf

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a new connection; call it in the event loop."""
        now_s = asyncio.get_running_loop().time()
        if self._files.have_changed() or now_s >= self._retry_at_s:
            self._retry_at_s = math.inf
            try:
                self._context, self.has_certificate = _context(self._keys)
                log.info("coordinator_certificates.loaded")
            except ConfigError as error:
                log.warning("coordinator_certificates.kept", error=str(error))
                # Not at each attempt to connect while the coordinator is down.
                self._retry_at_s = now_s + RETRY_DELAY_S
        return self._context


def _context(keys: CoordinatorKeys) -> tuple[ssl.SSLContext, bool]:
    """Return the context, and whether it has a certificate of this broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    set_versions(context, keys.zookeeper_ssl_enabled_protocols, PREFIX)
    context.check_hostname = bool(keys.zookeeper_ssl_endpoint_identification_algorithm)
    own, trusted = keys.zookeeper_ssl_keystore_location, keys.zookeeper_ssl_truststore_location
    with as_config_error(PREFIX):
        certificate = load_key(
            context,
            KeySource(
                type=store_type(keys.zookeeper_ssl_keystore_type, own),
                location=own,
                password=keys.zookeeper_ssl_keystore_password,
            ),
        )
        load_trust(
            context,
            TrustSource(
                type=store_type(keys.zookeeper_ssl_truststore_type, trusted),
                location=trusted,
                password=keys.zookeeper_ssl_truststore_password,
            ),
        )
    return context, certificate is not None


def _login(path: Path) -> Login:
    try:
        user, password = read_client_login(path)
    except JaasError as error:
        raise StartupError(f"{LOGIN_KEY}={path} {error}") from None
    return Login(user=user, password=password)
