"""Makes the encryption and authentication of each listener from its configuration (composition)."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from broker.cluster.coordinator_session import CoordinatorSession
from broker.config.broker_config import BrokerConfig
from broker.config.listener_security import ListenerSecurityConfig, MechanismConfig
from broker.config.oauth_bearer import OAUTHBEARER
from broker.errors import ConfigError, StartupError
from broker.live_configs.scram_users import ScramUsers
from broker.network.connection_gate import ListenerSecurity
from broker.network.metrics import NetworkMetrics
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.sasl_gate import GateSettings, SaslGate
from broker.security.oauth.token_validators import TokenValidators
from broker.security.principal import ANONYMOUS, USER, Principal
from broker.security.principal_mapping import PrincipalMapping
from broker.security.sasl_exchange import OfferedMechanism
from broker.security.tls_context import ServerTls, server_tls
from broker.security.token_nodes import TokenNodes
from clusterstate.broker_registration import login_secret
from kafkawire.sasl_oauth_server import OAuthBearerServer, Validate
from kafkawire.sasl_servers import PlainServer, SaslServer, ScramServer, TokenLogin
from kafkawire.scram import HASHES
from trust.distinguished_name import subject_of

NONCE_BYTES: Final = 24
SECRET_BYTES: Final = 32


class SecuredListeners:
    """The security of all listeners of a broker."""

    def __init__(
        self,
        config: BrokerConfig,
        users: ScramUsers,
        validators: TokenValidators,
        tokens: TokenNodes | None,
        login_secret: bytes,
    ) -> None:
        """Read the keys and certificates. The salts of unknown users depend on `login_secret`.

        Raises:
            StartupError: a file or key cannot be used.
        """
        self._config = config
        self._users = users
        self._tokens = tokens
        self._secret = login_secret
        self._mappings: dict[str, PrincipalMapping] = {}
        self._validate: dict[str, Validate] = {}
        for name, listener in config.listener_security.items():
            if listener.has_tls:
                self._mappings[name] = _mapping_of(listener)
            for mechanism in listener.mechanisms.values():
                if mechanism.oauth is not None:
                    self._validate[name] = validators.make(name, mechanism.oauth)
        try:
            self.tls = certificates_of(config)
            """Keys and certificates of new connections, by listeners with TLS."""
        except ConfigError as error:
            raise StartupError(str(error)) from None

    def make(
        self,
        handle: Callable[[Request], Reply],
        metrics: NetworkMetrics,
        loop: asyncio.AbstractEventLoop,
    ) -> Mapping[str, ListenerSecurity]:
        """Return the security of each listener; `handle` answers ApiVersions."""
        return {
            name: self._make_one(listener, handle, metrics, loop)
            for name, listener in self._config.listener_security.items()
            if listener.has_tls or listener.has_sasl
        }

    def _make_one(
        self,
        listener: ListenerSecurityConfig,
        handle: Callable[[Request], Reply],
        metrics: NetworkMetrics,
        loop: asyncio.AbstractEventLoop,
    ) -> ListenerSecurity:
        name = listener.listener_name
        tls = (lambda: self.tls[name].context) if listener.has_tls else None
        if not listener.has_sasl:
            return ListenerSecurity(
                tls=tls, principal_of=partial(principal_of, self._mappings[name])
            )
        delay_ms = self._config.network.connection_failed_authentication_delay_ms
        settings = GateSettings(
            loop=loop,
            handle=handle,
            metrics=metrics,
            offered={
                mechanism: OfferedMechanism(
                    begin=self._begin(name, mechanism, config), max_reauth_ms=config.max_reauth_ms
                )
                for mechanism, config in listener.mechanisms.items()
            },
            max_frame_bytes=listener.keys.sasl_server_max_receive_size,
            failure_delay_s=delay_ms / 1000,
        )
        return ListenerSecurity(tls=tls, make_gate=partial(SaslGate, settings))

    def _begin(
        self, listener_name: str, mechanism: str, config: MechanismConfig
    ) -> Callable[[], SaslServer]:
        """Return the function that begins an exchange of a mechanism."""
        if mechanism == OAUTHBEARER:
            return partial(OAuthBearerServer, self._validate[listener_name])
        if mechanism == "PLAIN":
            assert config.module is not None, "the configuration was checked"
            return partial(PlainServer, config.module.passwords)
        find = partial(self._users.credential, mechanism)
        find_token = partial(self._token, mechanism)
        return lambda: ScramServer(
            mechanism, find, secrets.token_urlsafe(NONCE_BYTES), self._secret, find_token
        )

    def _token(self, mechanism: str, token_id: str) -> TokenLogin | None:
        """Return the login of a delegation token."""
        nodes = self._tokens
        return None if nodes is None else nodes.tokens.login(mechanism, token_id, nodes.now_ms())


async def shared_secret(config: BrokerConfig, session: CoordinatorSession) -> bytes:
    """Return the login secret of the cluster; a broker without SCRAM needs none."""
    if not any(
        HASHES.keys() & each.mechanisms.keys() for each in config.listener_security.values()
    ):
        return b""
    proposed = secrets.token_bytes(SECRET_BYTES)
    return await session.repeat(lambda: session.run(login_secret(proposed)))


def certificates_of(config: BrokerConfig) -> dict[str, ServerTls]:
    """Read the keys and certificates of each listener with TLS.

    Raises:
        ConfigError: a file or key cannot be used.
    """
    return {
        name: server_tls(listener)
        for name, listener in config.listener_security.items()
        if listener.has_tls
    }


def principal_of(mapping: PrincipalMapping, transport: asyncio.BaseTransport) -> Principal:
    """Return the principal of the certificate that a TLS client has shown.

    Raises:
        ValueError: no rule applies to the certificate's name.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    if certificate is None:
        return ANONYMOUS
    return Principal(USER, mapping.name_of(subject_of(certificate)))


def _mapping_of(listener: ListenerSecurityConfig) -> PrincipalMapping:
    try:
        return PrincipalMapping(listener.keys.ssl_principal_mapping_rules)
    except ValueError as error:
        raise StartupError(f"{listener.prefix}ssl.principal.mapping.rules: {error}") from None
