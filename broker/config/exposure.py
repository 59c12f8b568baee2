"""Listeners that are open to other machines without protection (decision), ADR 0081."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker.config.listener import Listener
from broker.config.listener_security import ListenerSecurityConfig

LOCAL_NAME: Final = "localhost"
NO_AUTHENTICATION: Final = "every client that reaches it is served as User:ANONYMOUS"
NO_ENCRYPTION: Final = "passwords and records cross the network in clear text"


@dataclass(frozen=True)
class Exposure:
    """A listener for other machines, and the risk of it."""

    listener: Listener
    risk: str


def exposures(
    listening: tuple[Listener, ...], security: Mapping[str, ListenerSecurityConfig]
) -> Iterator[Exposure]:
    """Yield the listeners for other machines without authentication, or with it in clear text."""
    for listener in listening:
        if is_loopback(listener.host):
            continue
        config = security[listener.name]
        if not has_authentication(config):
            yield Exposure(listener, NO_AUTHENTICATION)
        elif not config.has_tls:
            yield Exposure(listener, NO_ENCRYPTION)


def has_authentication(config: ListenerSecurityConfig) -> bool:
    """Whether every client of a listener has to prove an identity."""
    return config.has_sasl or (config.has_tls and config.keys.ssl_client_auth == "required")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`; an empty one means every interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCAL_NAME
