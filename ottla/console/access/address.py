"""The address on which the console listens, and the names under which it answers (decision)."""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

LOCALHOST: Final = "localhost"
MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An IP address and a port; port 0 means any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    def at_port(self, port: int) -> "ListenAddress":
        """Return the same address with another port."""
        return ListenAddress(self.host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> ListenAddress:
    """Return the address in `IP:PORT` or `[IP]:PORT`; `localhost` is 127.0.0.1.

    Raises:
        ValueError: the text has another form, or the port is out of range.
    """
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host == LOCALHOST else host
    if not separator or not is_ip(host) or not (port.isascii() and port.isdecimal()):
        raise ValueError(f"{text!r} is not of the form IP:PORT, such as 127.0.0.1:9021")
    if int(port) > MAX_PORT:
        raise ValueError(f"a port is at most {MAX_PORT}, got {port}")
    return ListenAddress(host, int(port))


def is_ip(text: str) -> bool:
    """Whether the text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_known_host(header: str, names: Collection[str]) -> bool:
    """Whether a request with this Host header is meant for the console.

    IP addresses, `localhost` and `names` are. Another name may be one that an attacker has bound to
    this address, to make a browser treat the attacker's page as one of the console (DNS rebinding).
    The port may differ, because a tunnel may forward another one.
    """
    host = _host_in(header)
    return host is not None and (is_ip(host) or host in {LOCALHOST, *map(str.lower, names)})


def is_same_origin(origin: str | None, host_header: str) -> bool:
    """Whether a page of the console itself sent the request with this Origin header.

    The scheme may differ, because a proxy may add TLS.
    """
    if origin is None or not host_header:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host_header.lower()


def _host_in(header: str) -> str | None:
    try:
        parts = urlsplit(f"//{header}")
    except ValueError:
        return None
    return parts.hostname if parts.netloc == header and "@" not in header else None
