"""Follows the addresses of the live brokers in the coordinator (edge)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths
from clusterstate.znodes.jafka_nodes import decode_jafka_broker
from clusterstate.znodes.registration import decode_registration
from coordination.client import Client, WatchEvent
from coordination.errors import NoNodeError, OperationError
from kafkawire.ids import BrokerId
from ottla.client.client_config import Address
from ottla.zookeeper.nodes import gathered
from ottla.zookeeper.registration import Layout

log = logging.getLogger(__name__)

RETRY_S: Final = 0.5
PLAINTEXT: Final = "PLAINTEXT"


class BrokerAddresses:
    """The address of each live broker, by its id. Watches fire once, so every read arms them."""

    def __init__(self, client: Client, layout: Layout, security_protocol: str = PLAINTEXT) -> None:
        self.addresses: dict[int, Address] = {}
        self.on_change: Callable[[], None] = _ignore
        self._client = client
        self._layout = layout
        self._security_protocol = security_protocol
        self._changed = asyncio.Event()

    async def read(self) -> dict[int, Address]:
        """Return the current addresses; brokers without a suitable listener are left out.

        Raises:
            OperationError: the coordinator refuses, or the connection is lost.
        """
        try:
            names = await self._client.get_children(paths.BROKER_IDS, self._on_event)
        except NoNodeError:
            names = []
            if await self._client.exists(paths.BROKER_IDS, self._on_event) is not None:
                # It was created between the two reads, so that the watch is too late.
                self._changed.set()
        ids = sorted(int(name) for name in names if name.isdecimal())
        found = await gathered(
            self._client.get_data(paths.broker(each), self._on_event) for each in ids
        )
        self.addresses = {
            broker: address
            for broker, held in zip(ids, found, strict=True)
            if not isinstance(held, BaseException)
            and (address := self._address(broker, held[0])) is not None
        }
        return self.addresses

    async def wait(self, timeout_s: float) -> bool:
        """Read until there is a broker; return False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await self.read():
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            return False
        return True

    async def follow(self) -> None:
        """Read again after every change, and call `on_change`; never returns."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.read()
            except OperationError:
                await asyncio.sleep(RETRY_S)
                self._changed.set()
                continue
            self.on_change()

    def refresh(self) -> None:
        """Read again: there is a new session, which has no watches."""
        self._changed.set()

    def _on_event(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _address(self, broker: int, data: bytes | None) -> Address | None:
        try:
            if self._layout is Layout.JAFKA:
                held = decode_jafka_broker(data)
                return Address(held.host, held.port)
            registration = decode_registration(BrokerId(broker), data)
        except MalformedZnodeError as error:
            log.warning("group.bad_broker broker=%d error=%s", broker, error)
            return None
        for endpoint in registration.endpoints:
            protocol = registration.security_protocols.get(endpoint.listener, endpoint.listener)
            if protocol == self._security_protocol and endpoint.port > 0:
                return Address(endpoint.host, endpoint.port)
        return None


def _ignore() -> None:
    pass
