"""This broker's TLS and SASL at other brokers (edge)."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

from broker.config.broker_config import BrokerConfig
from broker.config.listener_security import ListenerSecurityConfig
from broker.config.oauth_bearer import OAuthLogin
from broker.errors import ConfigError, StartupError
from broker.security.oauth.unsecured_tokens import make_unsecured
from broker.security.tls_context import client_context
from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.sasl_clients import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from kafkawire.scram import ScramError

R = TypeVar("R")
Contexts = Mapping[str, ssl.SSLContext | None]
"""By listener; None without TLS."""

MAX_EXCHANGES: Final = 8
NONCE_BYTES: Final = 24
MAX_TOKEN_CHARS: Final = 64 * 1024
RENEWAL_SHARE: Final = 0.8
"""Share of a session's lifetime after which a connection is replaced."""


class LoginError(OSError):
    """Another broker has refused this broker's credentials, or cannot prove that it knows them."""


class Ask(Protocol):
    """Sends a request, and returns its response."""

    def __call__(
        self, message: object, response_type: type[R], version: int | None
    ) -> Awaitable[R]:
        """Send a request in `version`, None for the newest one of both sides."""


class PeerSecurity:
    """Encryption and login for connections to one listener of other brokers."""

    def __init__(self, config: ListenerSecurityConfig, now_ms: Callable[[], int]) -> None:
        """Read keys and certificates.

        Raises:
            StartupError: a file or key cannot be used.
        """
        self.listener_name = config.listener_name
        self._config = config
        self._now_ms = now_ms
        try:
            self.tls = _context_of(config)
        except ConfigError as error:
            raise StartupError(str(error)) from None

    async def log_in(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> float | None:
        """Authenticate a new connection; return the time after which it must be replaced, if any.

        Raises:
            LoginError: the other broker refuses the login.
        """
        if not self._config.has_sasl:
            return None
        mechanism = self._config.keys.sasl_mechanism_inter_broker_protocol
        handshake = await ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)
        if handshake.error_code != ErrorCode.NONE:
            raise LoginError(f"the broker does not offer {mechanism}: see {self._key}")
        # In a thread, because it may read a file.
        client = await loop.run_in_executor(None, self._begin, mechanism)
        token: bytes | None = client.first()
        lifetime_ms = 0
        for _ in range(MAX_EXCHANGES):
            if token is None:
                break
            response = await ask(
                SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, None
            )
            if response.error_code != ErrorCode.NONE:
                raise LoginError(
                    f"the broker refuses the {mechanism} login: check the user in {self._key}"
                )
            try:
                # In a thread, because the other side may demand a costly hash.
                token = await loop.run_in_executor(None, client.answer, bytes(response.auth_bytes))
            except ScramError as error:
                raise LoginError(f"the broker cannot be trusted: {error}") from None
            lifetime_ms = response.session_lifetime_ms
        if token is not None:
            raise LoginError(f"the {mechanism} login does not end")
        return loop.time() + lifetime_ms / 1000 * RENEWAL_SHARE if lifetime_ms > 0 else None

    @property
    def _key(self) -> str:
        mechanism = self._config.keys.sasl_mechanism_inter_broker_protocol.lower()
        return f"{self._config.prefix}{mechanism}.sasl.jaas.config"

    def _begin(self, mechanism: str) -> SaslClient:
        oauth = self._config.mechanisms[mechanism].oauth
        if oauth is not None:
            assert oauth.login is not None, "the configuration was checked"
            return OAuthBearerClient(self._own_token(oauth.login))
        module = self._config.mechanisms[mechanism].module
        assert module is not None, "the configuration was checked"
        assert module.login is not None, "the configuration was checked"
        user, password = module.login
        if mechanism == "PLAIN":
            return PlainClient(user, password)
        return ScramClient(mechanism, user, password, secrets.token_urlsafe(NONCE_BYTES))

    def _own_token(self, login: OAuthLogin) -> str:
        """Return a token for this broker."""
        if not login.path:
            return make_unsecured(login.claims, login.lifetime_s, self._now_ms())
        try:
            with Path(login.path).open(encoding="ascii") as file:
                return file.read(MAX_TOKEN_CHARS).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LoginError(f"{login.path} cannot be read: {error}") from None


class PeerSecurities:
    """The security towards the listeners that brokers use among themselves."""

    def __init__(self, config: BrokerConfig, now_ms: Callable[[], int]) -> None:
        """Read keys and certificates.

        Raises:
            StartupError: a file or key cannot be used.
        """
        network = config.network
        listeners = config.listener_security
        self.inter_broker = PeerSecurity(listeners[network.inter_broker_listener], now_ms)
        self.control_plane = self.inter_broker
        if network.control_plane_listener is not None:
            self.control_plane = PeerSecurity(listeners[network.control_plane_listener], now_ms)

    @property
    def contexts(self) -> Contexts:
        """The contexts in force."""
        return {each.listener_name: each.tls for each in self._each}

    def load(self, config: BrokerConfig) -> Contexts:
        """Read keys and certificates again.

        Raises:
            ConfigError: a file or key cannot be used.
        """
        listeners = config.listener_security
        return {name: _context_of(listeners[name]) for name in self.contexts}

    def adopt(self, contexts: Contexts) -> None:
        """Use contexts that `load` has returned for new connections."""
        for security in self._each:
            security.tls = contexts[security.listener_name]

    @property
    def _each(self) -> tuple[PeerSecurity, ...]:
        return self.inter_broker, self.control_plane


def _context_of(config: ListenerSecurityConfig) -> ssl.SSLContext | None:
    return client_context(config) if config.has_tls else None
