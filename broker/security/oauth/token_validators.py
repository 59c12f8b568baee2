"""The validators of the tokens of all listeners, and the key sets that they share (composition)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from broker.config.oauth_bearer import KeyAddress, OAuthConfig
from broker.errors import StartupError
from broker.security.oauth.unsecured_tokens import accept_unsecured
from kafkawire.sasl_oauth_server import Validate

if TYPE_CHECKING:
    from broker.security.oauth.key_set_reader import KeySetReader

log = structlog.get_logger(__name__)


class TokenValidators:
    """Call `make` for each listener, then `start`, then `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._sources: dict[KeyAddress, KeySetReader] = {}

    def make(self, listener_name: str, config: OAuthConfig) -> Validate:
        """Return the validator of a listener's tokens.

        Raises:
            StartupError: a library is not installed.
        """
        rules, address = config.rules, config.address
        if address is None:
            log.warning("tokens.not_verified", listener_name=listener_name)
            return lambda text: accept_unsecured(text, rules, self._now_ms())
        if not rules.issuer and not rules.audiences:
            log.warning("tokens.issuer_not_verified", listener_name=listener_name)
        if address.scheme == "http":
            log.warning("jwks.not_encrypted", listener_name=listener_name, url=address.url)
        try:
            # The libraries take 0.1 s to import, and most brokers do not need them.
            from broker.security.oauth.key_set_reader import KeySetReader
            from broker.security.oauth.signed_tokens import SignedTokens
        except ImportError as error:
            text = f"OAUTHBEARER needs more libraries: pip install 'ottla[security]' ({error})"
            raise StartupError(text) from error
        source = self._sources.setdefault(address, KeySetReader(address, self._loop))
        return SignedTokens(source, rules, self._now_ms).accept

    async def start(self) -> None:
        """Read all key sets.

        Raises:
            StartupError: a file with a key set cannot be used.
        """
        for source in self._sources.values():
            await source.start()

    async def stop(self) -> None:
        """Read no more."""
        for source in self._sources.values():
            await source.stop()
