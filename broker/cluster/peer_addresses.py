"""Checks whether a connection may belong to a broker, by its address (edge).

A listener for brokers only is trusted. On any other listener the sender's address must be one of a
registered broker, or of this machine. Names are resolved in the background. While a broker's name
is unresolved its address is unknown, and every address is accepted for it.
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
"""Time before a name is resolved again for a sender with another address."""

KNOWN_HOSTS: Final = 1024

Resolve = Callable[[str], Awaitable[frozenset[str]]]


class Sender(Protocol):
    """Origin of a request."""

    @property
    def listener_name(self) -> str:
        """Name of the listener that accepted the connection."""

    @property
    def client_host(self) -> str:
        """Address of the client that sent it."""


class PeerAddresses:
    """Checks senders against the last resolved addresses of host names."""

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
        self._resolve = resolve or self._resolve_by_system
        # Addresses of a name, None if it could not be resolved, and the time of the look-up.
        self._known: dict[str, tuple[frozenset[str] | None, float]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def may_be(self, broker_id: BrokerId, sender: Sender) -> bool:
        """Whether a sender may be a live broker. A broker that is not known yet may be anywhere."""
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None:
            return True
        return self._is_at(sender, [each.host for each in broker.endpoints.values()])

    async def is_from(self, sender: Sender, hosts: Iterable[str]) -> bool:
        """Whether a sender may be at one of `hosts`, which are resolved first if necessary."""
        listed = list(hosts)
        if not self._is_local(sender) and not self._matches(sender, listed):
            self._look_up(listed)
            waited = [self._running[host] for host in listed if host in self._running]
            if waited:
                await asyncio.wait(waited)
        return self._is_at(sender, listed)

    async def stop(self) -> None:
        """Cancel pending look-ups."""
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
            _, resolved_at_s = self._known.get(host, (None, -RESOLVE_AGAIN_S))
            if host not in self._running and now_s - resolved_at_s >= RESOLVE_AGAIN_S:
                task = self._running[host] = self._loop.create_task(self._update(host))
                task.add_done_callback(partial(self._on_resolved, host))

    def _on_resolved(self, host: str, _: asyncio.Task[None]) -> None:
        del self._running[host]

    async def _update(self, host: str) -> None:
        found: frozenset[str] | None
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                found = await self._resolve(host)
        except (OSError, UnicodeError):
            found = None
        self._known[host] = (found, self._loop.time())

    async def _resolve_by_system(self, host: str) -> frozenset[str]:
        found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return frozenset(_plain(str(address[0])) for _, _, _, _, address in found)


@lru_cache(maxsize=KNOWN_HOSTS)
def _is_this_machine(host: str) -> bool:
    """Whether an address is local. Cached, as each fetch of a follower needs it."""
    try:
        return ipaddress.ip_address(_plain(host)).is_loopback
    except ValueError:
        # Not an IP address, so a Unix socket of this machine.
        return True


def _plain(address: str) -> str:
    """Return an address without its zone, and an IPv4-mapped one as IPv4."""
    plain = address.partition("%")[0]
    return plain.removeprefix("::ffff:") if "." in plain else plain
