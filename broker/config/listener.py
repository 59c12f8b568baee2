"""Parser of `listeners`, `advertised.listeners` and their protocol map (decision)."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.errors import ConfigError

SECURITY_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
UNROUTABLE_HOST: Final = "0.0.0.0"
MAX_PORT: Final = 65_535

_PATTERN: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Listener:
    """A named address. An empty host means every interface, port 0 a port chosen by the system."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(key: str, text: str, *, distinct_ports: bool) -> tuple[Listener, ...]:
    """Return the listeners in `text`, "NAME://HOST:PORT,...".

    Raises:
        ConfigError: the text is malformed, or two listeners share a name or, with
            `distinct_ports`, a port on one address family.
    """
    listeners = tuple(_parse_one(key, item.strip()) for item in text.split(",") if item.strip())
    if not listeners:
        raise ConfigError(key, text, "must name at least one listener")
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ConfigError(key, text, "must give each listener a distinct name")
    if distinct_ports and _has_port_clash(listeners):
        raise ConfigError(key, text, "must give each listener a distinct port")
    return listeners


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """Return the security protocol of each listener name in `text`, "NAME:PROTOCOL,...".

    Raises:
        ConfigError: the text is malformed, or a protocol does not exist.
    """
    protocols = parse_map(key, text)
    for protocol in protocols.values():
        if protocol.upper() not in SECURITY_PROTOCOLS:
            allowed = ", ".join(sorted(SECURITY_PROTOCOLS))
            raise ConfigError(key, text, f"must map to one of {allowed}, not {protocol}")
    return {name.upper(): protocol.upper() for name, protocol in protocols.items()}


def parse_map(key: str, text: str) -> dict[str, str]:
    """Return the pairs in `text`, "NAME:VALUE,..."; the value starts after the last colon.

    Raises:
        ConfigError: an item has no colon.
    """
    pairs = {}
    for item in (item.strip() for item in text.split(",")):
        name, separator, value = item.rpartition(":")
        if separator:
            pairs[name.strip()] = value.strip()
        elif item:
            raise ConfigError(key, text, "must have the form NAME:VALUE,...")
    return pairs


def check_protocols(key: str, listeners: Sequence[Listener], protocols: Mapping[str, str]) -> None:
    """Refuse listeners without a security protocol.

    Raises:
        ConfigError: for the first such listener.
    """
    for listener in listeners:
        if listener.name not in protocols:
            rule = "must be a name of listener.security.protocol.map"
            raise ConfigError(key, listener, rule)


def _parse_one(key: str, text: str) -> Listener:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ConfigError(key, text, "must have the form NAME://HOST:PORT")
    name, host, port = match.group(1), match.group(2), int(match.group(3))
    if not 0 <= port <= MAX_PORT:
        raise ConfigError(key, text, f"must have a port within 0..{MAX_PORT}")
    return Listener(name.upper(), host, port)


def _has_port_clash(listeners: Sequence[Listener]) -> bool:
    """Whether two listeners use one port; an IPv4 and an IPv6 address may share it."""
    families = defaultdict(list)
    for listener in listeners:
        if listener.port:
            families[listener.port].append(_address_family(listener.host))
    return any(len(family) > 1 and sorted(family) != [4, 6] for family in families.values())


def _address_family(host: str) -> int:
    """Return 4 or 6 for an address, 0 for a host name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
