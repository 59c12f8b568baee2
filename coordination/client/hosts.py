"""Which server to try next, and when (decision); and the connect string."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from coordination import paths

DEFAULT_PORT: Final = 2181
FIRST_DELAY_MS: Final = 20.0
MAX_DELAY_MS: Final = 1000.0


class Host(NamedTuple):
    """One server."""

    name: str
    port: int


class ConnectString(NamedTuple):
    """HOST:PORT,HOST:PORT/CHROOT in parts; `chroot` is "" without one."""

    hosts: tuple[Host, ...]
    chroot: str


def parse_connect_string(text: str) -> ConnectString:
    """Read a connect string as Kafka's `zookeeper.connect` has it.

    Raises:
        ValueError: no host, a bad port or a bad path.
    """
    servers, slash, rest = text.partition("/")
    chroot = "" if not slash or not rest else "/" + rest.rstrip("/")
    if chroot and not paths.is_valid(chroot):
        raise ValueError(f"{chroot!r} is no path to use as chroot")
    hosts = tuple(_parse_host(each.strip()) for each in servers.split(",") if each.strip())
    if not hosts:
        raise ValueError(f"no server in {text!r}: write HOST:PORT,HOST:PORT/CHROOT")
    return ConnectString(hosts, chroot)


def _parse_host(text: str) -> Host:
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return Host(text.strip("[]"), DEFAULT_PORT)
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{port!r} in {text!r} is no port")
    return Host(name.strip("[]"), int(port))


class Attempt(NamedTuple):
    """Wait `delay_ms`, then try `host`."""

    host: Host
    delay_ms: float


class Rotation:
    """The order in which servers are tried.

    Every server is tried once without a pause, then there is a pause, which doubles with jitter. A
    connection that worked makes the next round start without one again.
    """

    def __init__(self, hosts: Sequence[Host], random: Random) -> None:
        self._hosts = list(hosts)
        self._random = random
        # So that the clients of an ensemble do not all sit on its first member.
        random.shuffle(self._hosts)
        self._position = 0
        self._tried_count = 0

    @property
    def host_count(self) -> int:
        """How many servers there are."""
        return len(self._hosts)

    def next(self) -> Attempt:
        """Return what to try now."""
        host = self._hosts[self._position % len(self._hosts)]
        self._position += 1
        rounds, within = divmod(self._tried_count, len(self._hosts))
        self._tried_count += 1
        if rounds == 0 or within:
            return Attempt(host, 0.0)
        ceiling = min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** min(rounds - 1, 10))
        return Attempt(host, ceiling * self._random.uniform(0.5, 1.0))

    def on_connected(self) -> None:
        """A session is established on the server that was tried last."""
        self._tried_count = 0
