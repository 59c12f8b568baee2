"""Which brokers are registered, and whether they know each other (edge).

The coordinator says who is registered, through a session of the supervisor's own; each broker
says whom it knows, in its metadata.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from coordination.client import Client, SessionState
from coordination.errors import CoordinationError, NoNodeError
from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig, parse_bootstrap
from ottla.client.errors import OttlaError
from ottla.client.metadata import NO_LEADER, ClusterMetadata

BROKER_IDS: Final = "/brokers/ids"
SESSION_TIMEOUT_MS: Final = 10_000
RETRY_S: Final = 0.03
QUESTION_TIMEOUT_MS: Final = 2_000


class Census:
    """Follows `/brokers/ids`; `on_change` is called whenever somebody came or went."""

    def __init__(self, connect: str, on_change: Callable[[], None]) -> None:
        self.registered: frozenset[int] = frozenset()
        self._client = Client(
            connect, session_timeout_ms=SESSION_TIMEOUT_MS, has_heartbeat_thread=False
        )
        self._on_change = on_change
        self._changed = asyncio.Event()

    @property
    def is_connected(self) -> bool:
        """Whether the coordinator answers, so that `registered` is true now."""
        return self._client.state is SessionState.CONNECTED

    async def follow(self) -> None:
        """Keep `registered` up to date until cancelled, over failures of the coordinator."""
        try:
            while True:
                try:
                    await self._follow_session()
                except CoordinationError:
                    # Not a fault of ours: it starts, or starts again.
                    await asyncio.sleep(RETRY_S)
        finally:
            await self._client.close()

    async def _follow_session(self) -> None:
        if self._client.state in (
            SessionState.DISCONNECTED,
            SessionState.EXPIRED,
            SessionState.CLOSED,
        ):
            await self._client.connect()
        while True:
            self._changed.clear()
            self._note(await self._children())
            await self._changed.wait()

    async def _children(self) -> Sequence[str]:
        while True:
            try:
                return await self._client.get_children(
                    BROKER_IDS, watch=lambda _event: self._changed.set()
                )
            except NoNodeError:
                # The first broker makes it, a moment from now.
                await asyncio.sleep(RETRY_S)

    def _note(self, names: Sequence[str]) -> None:
        registered = frozenset(int(name) for name in names if name.isdigit())
        if registered != self.registered:
            self.registered = registered
            self._on_change()


async def wait_until_acquainted(addresses: Sequence[str]) -> None:
    """Return when each of the brokers names as many brokers as there are, and a controller."""
    await asyncio.gather(*(_wait_until_informed(each, len(addresses)) for each in addresses))


async def _wait_until_informed(address: str, broker_count: int) -> None:
    while True:
        try:
            known = await ask(address)
            if len(known.brokers) >= broker_count and known.controller_id != NO_LEADER:
                return
        except OttlaError:
            pass
        await asyncio.sleep(RETRY_S)


async def ask(address: str) -> ClusterMetadata:
    """Return the picture of the cluster that the broker at `address` has, without topics.

    Raises:
        OttlaError: it cannot be reached, or does not answer.
    """
    config = ClientConfig(
        bootstrap=parse_bootstrap(address),
        client_id="ottla-up",
        request_timeout_ms=QUESTION_TIMEOUT_MS,
    )
    cluster = Cluster(config, allow_auto_topic_creation=False)
    await cluster.start()
    try:
        return cluster.metadata
    finally:
        await cluster.close()
