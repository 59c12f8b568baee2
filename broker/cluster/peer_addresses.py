"""Which connections may speak for brokers, as far as addresses tell (edge).

A listener that only brokers use is trusted. On any other one the sender's address must be one where
a registered broker is reached, or one of this machine. Names are resolved in the background; as
long as one is not, or cannot be, its broker's address is not known and not asked for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache, partial
from typing import Final, Protocol

from broker.cluster.metadata_cache import MetadataCache
from kafkawire.ids import BrokerId

RESOLVE_TIMEOUT_S: Final = 2.0
RESOLVE_AGAIN_S: Final = 5.0
"""How long the addresses of a name are believed when a sender has another one."""

KNOWN_HOSTS: Final = 1024

Resolve = Callable[[str], Awaitable[frozenset[str]]]


class Sender(Protocol):
    """Where a request came from."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that it came by."""

    @property
    def client_host(self) -> str:
        """Address of the client that sent it."""


class PeerAddresses:
    """The addresses of names, as they were resolved last."""

    def __init__(
        self,
        metadata: MetadataCache,
        trusted_listeners: Iterable[str],
        *,
        loop: asyncio.AbstractEventLoop,
        resolve: Resolve | None = None,
    ) -> None:
        self._metadata = metadata
        self._trusted = frozenset(trusted_listeners)
        self._loop = loop
        self._resolve = resolve or self._ask_resolver
        # Addresses of a name, or None while there are none, and when they were looked up.
        self._known: dict[str, tuple[frozenset[str] | None, float]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def may_be(self, broker_id: BrokerId, sender: Sender) -> bool:
        """Whether a sender may be a live broker. One that is not known yet may be anywhere."""
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None:
            return True
        return self._is_at(sender, [each.host for each in broker.endpoints.values()])

    async def is_from(self, sender: Sender, hosts: Iterable[str]) -> bool:
        """Whether a sender may be at one of `hosts`, which are resolved first if need be."""
        listed = list(hosts)
        if not self._is_local(sender) and not self._matches(sender, listed):
            self._look_up(listed)
            waited = [self._running[host] for host in listed if host in self._running]
            if waited:
                await asyncio.wait(waited)
        return self._is_at(sender, listed)

    async def stop(self) -> None:
        """Resolve nothing more."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _is_local(self, sender: Sender) -> bool:
        return sender.listener_name in self._trusted or _is_this_machine(sender.client_host)

    def _is_at(self, sender: Sender, hosts: list[str]) -> bool:
        if self._is_local(sender) or not hosts or self._matches(sender, hosts):
            return True
        self._look_up(hosts)
        return any(self._addresses_of(host) is None for host in hosts)

    def _matches(self, sender: Sender, hosts: list[str]) -> bool:
        address = _plain(sender.client_host)
        return any(address in (self._addresses_of(host) or ()) for host in hosts)

    def _addresses_of(self, host: str) -> frozenset[str] | None:
        return self._known[host][0] if host in self._known else None

    def _look_up(self, hosts: Iterable[str]) -> None:
        now_s = self._loop.time()
        for host in hosts:
            _, looked_at_s = self._known.get(host, (None, -RESOLVE_AGAIN_S))
            if host not in self._running and now_s - looked_at_s >= RESOLVE_AGAIN_S:
                task = self._running[host] = self._loop.create_task(self._learn(host))
                task.add_done_callback(partial(self._on_learned, host))

    def _on_learned(self, host: str, _: asyncio.Task[None]) -> None:
        del self._running[host]

    async def _learn(self, host: str) -> None:
        found: frozenset[str] | None
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                found = await self._resolve(host)
        except (OSError, UnicodeError):
            found = None
        self._known[host] = (found, self._loop.time())

    async def _ask_resolver(self, host: str) -> frozenset[str]:
        found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return frozenset(_plain(str(address[0])) for _, _, _, _, address in found)


@lru_cache(maxsize=KNOWN_HOSTS)
def _is_this_machine(host: str) -> bool:
    """Whether an address is local. Remembered: each fetch of a follower asks."""
    try:
        return ipaddress.ip_address(_plain(host)).is_loopback
    except ValueError:
        # Not an address: a socket of this machine.
        return True


def _plain(address: str) -> str:
    """Return an address without its zone; one of IPv4 in the dress of IPv6 as what it is."""
    plain = address.partition("%")[0]
    return plain.removeprefix("::ffff:") if "." in plain else plain
