"""Rotation through the servers with back-off, and the connect string (decision)."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from coordination.protocol import node_path
from coordination.protocol.messages import DEFAULT_PORT

FIRST_DELAY_MS: Final = 20.0
MAX_DELAY_MS: Final = 1000.0


class Host(NamedTuple):
    """Address of one server."""

    name: str
    port: int


class ConnectString(NamedTuple):
    """Parts of HOST:PORT,HOST:PORT/CHROOT; `chroot` is "" without one."""

    text: str
    hosts: tuple[Host, ...]
    chroot: str

    def to_server(self, path: str) -> str:
        """Return the server's path of the client's `path`, which is relative to the chroot."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def from_server(self, path: str) -> str:
        """Return the client's path of the server's `path`."""
        if not self.chroot or not path.startswith(self.chroot):
            return path
        return path[len(self.chroot) :] or "/"


def parse_connect_string(text: str) -> ConnectString:
    """Parse a connect string, in the format of Kafka's `zookeeper.connect`.

    Raises:
        ValueError: it has no host, an invalid port or an invalid path.
    """
    servers, slash, rest = text.partition("/")
    chroot = "" if not slash or not rest else "/" + rest.rstrip("/")
    if chroot and not node_path.is_valid(chroot):
        raise ValueError(f"chroot {chroot!r} is not a valid path")
    hosts = tuple(_parse_host(each.strip()) for each in servers.split(",") if each.strip())
    if not hosts:
        raise ValueError(f"no server in {text!r}, expected HOST:PORT,HOST:PORT/CHROOT")
    return ConnectString(text, hosts, chroot)


def _parse_host(text: str) -> Host:
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return Host(text.strip("[]"), DEFAULT_PORT)
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{port!r} in {text!r} is not a port")
    return Host(name.strip("[]"), int(port))


class Attempt(NamedTuple):
    """Next server to try, after `delay_ms`."""

    host: Host
    delay_ms: float


class Rotation:
    """Order in which servers are tried.

    Every server is tried once without delay. Each further round starts with a back-off, which
    doubles and has jitter. An established session resets the back-off.
    """

    def __init__(self, hosts: Sequence[Host], random: Random) -> None:
        self._hosts = list(hosts)
        self._random = random
        # Spreads the clients of an ensemble over its members.
        random.shuffle(self._hosts)
        self._position = 0
        self._tried_count = 0

    @property
    def host_count(self) -> int:
        """Number of servers."""
        return len(self._hosts)

    def next(self) -> Attempt:
        """Return the next server to try, and the delay before it."""
        host = self._hosts[self._position % len(self._hosts)]
        self._position += 1
        rounds, within = divmod(self._tried_count, len(self._hosts))
        self._tried_count += 1
        if rounds == 0 or within:
            return Attempt(host, 0.0)
        ceiling = min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** min(rounds - 1, 10))
        return Attempt(host, ceiling * self._random.uniform(0.5, 1.0))

    def on_connected(self) -> None:
        """Record that a session is established on the last server tried."""
        self._tried_count = 0
