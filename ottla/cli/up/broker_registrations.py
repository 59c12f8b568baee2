"""Registration of brokers, and their knowledge of each other (edge).

The supervisor watches the registrations through a coordinator session of its own. The metadata of
each broker list the brokers that it knows.
"""

import asyncio
from collections.abc import Callable, Sequence, Set
from typing import Final

from broker.cluster.coordinator_security import CoordinatorSecurity
from coordination.client import Client, SessionState
from coordination.errors import CoordinationError, NoNodeError
from kafkawire.ids import BrokerId
from kafkawire.sentinels import NO_LEADER
from ottla.cli.up.plan import Child
from ottla.client.client_config import NO_SECURITY, ClientConfig, Security, parse_bootstrap
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.errors import AuthenticationFailedError, OttlaError
from ottla.client.network.cluster import Cluster

BROKER_IDS: Final = "/brokers/ids"
SESSION_TIMEOUT_MS: Final = 10_000
RETRY_S: Final = 0.03
REQUEST_TIMEOUT_MS: Final = 2_000


class BrokerRegistrations:
    """Watches `/brokers/ids`; calls `on_change` after each registration or its end."""

    def __init__(
        self, connect: str, security: CoordinatorSecurity, on_change: Callable[[], None]
    ) -> None:
        self.registered: frozenset[int] = frozenset()
        self._client = Client(
            connect,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            has_heartbeat_thread=False,
            tls=security.tls,
            login=security.login,
        )
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._client.on_state_change(self._on_state)

    @property
    def is_connected(self) -> bool:
        """Whether the session is connected, so that `registered` is current."""
        return self._client.state is SessionState.CONNECTED

    async def follow(self) -> None:
        """Keep `registered` up to date until cancelled, across failures of the coordinator."""
        try:
            while True:
                try:
                    await self._follow_session()
                except CoordinationError:
                    # The coordinator is starting or restarting: retry.
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
            self._update(await self._children())
            await self._changed.wait()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            # The watch has ended with the session, and would never report.
            self._changed.set()

    async def _children(self) -> Sequence[str]:
        while True:
            try:
                return await self._client.get_children(
                    BROKER_IDS, watch=lambda _event: self._changed.set()
                )
            except NoNodeError:
                # The first broker creates the node when it registers.
                await asyncio.sleep(RETRY_S)

    def _update(self, names: Sequence[str]) -> None:
        registered = frozenset(int(name) for name in names if name.isdecimal())
        if registered != self.registered:
            self.registered = registered
            self._on_change()


async def wait_for_complete_metadata(brokers: Sequence[Child], login: Security) -> None:
    """Return once the metadata of each of `brokers` list all of them and a controller."""
    ids = {BrokerId(each.broker_id) for each in brokers if each.broker_id is not None}
    await asyncio.gather(
        *(_wait_for_complete_metadata(each.address, ids, login) for each in brokers)
    )


async def _wait_for_complete_metadata(
    address: str, broker_ids: Set[BrokerId], login: Security
) -> None:
    while True:
        try:
            metadata = await fetch_metadata(address, login)
            if broker_ids <= metadata.brokers.keys() and metadata.controller_id != NO_LEADER:
                return
        except AuthenticationFailedError:
            # Another program at the address, or other credentials: waiting would not help.
            raise
        except OttlaError:
            pass
        await asyncio.sleep(RETRY_S)


async def fetch_metadata(address: str, login: Security = NO_SECURITY) -> ClusterMetadata:
    """Return the metadata of the broker at `address`, without topics.

    Raises:
        OttlaError: the broker cannot be reached, or does not respond.
    """
    config = ClientConfig(
        bootstrap=parse_bootstrap(address),
        client_id="ottla-up",
        security=login,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    cluster = Cluster(config, allow_auto_topic_creation=False)
    await cluster.start()
    try:
        return cluster.metadata
    finally:
        await cluster.close()
