"""Listeners that are open to other machines without protection (decision), ADR 0081.

Also super users that are probably mistakes: they are allowed, as in Kafka, and need a warning.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker.config.listener import Listener
from broker.config.listener_security import ListenerSecurityConfig
from broker.security.principal import ANONYMOUS, USER, Principal

LOCAL_NAME: Final = "localhost"
NO_AUTHENTICATION: Final = "every client that reaches it is served as User:ANONYMOUS"
NO_ENCRYPTION: Final = "passwords and records cross the network in clear text"
ANY_AUTHORITY: Final = "a certificate of any authority that this system trusts is an identity"
ANONYMOUS_MAY_ALL: Final = "every client without authentication may do everything"
OTHER_KIND: Final = f"no client has this kind of principal: the only one is {USER}"
SEPARATOR: Final = "principals are separated by semicolons, and this one contains another"
BLANKS: Final = "the name begins or ends with a blank, and no client's does"


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
        elif not config.has_sasl and not (
            config.keys.ssl_truststore_location or config.keys.ssl_truststore_certificates
        ):
            yield Exposure(listener, ANY_AUTHORITY)


def doubtful(super_users: Iterable[Principal]) -> Iterator[tuple[Principal, str]]:
    """Yield the super users that are probably mistakes, with the reason."""
    for each in super_users:
        if each == ANONYMOUS:
            yield each, ANONYMOUS_MAY_ALL
        elif each.kind != USER:
            yield each, OTHER_KIND
        elif f",{USER}:" in each.name.replace(" ", ""):
            yield each, SEPARATOR
        elif each.name != each.name.strip():
            yield each, BLANKS


def has_authentication(config: ListenerSecurityConfig) -> bool:
    """Whether every client of a listener has to prove an identity."""
    return config.has_sasl or (config.has_tls and config.keys.ssl_client_auth == "required")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`; an empty one means every interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCAL_NAME
