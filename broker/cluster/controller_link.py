"""Requests of this broker to the current controller (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.cluster.peer import Peer, PeerError

R = TypeVar("R")


class ControllerLink:
    """One connection to the current controller, opened when it is first needed.

    Callers use it one after the other, each with the controller of the moment when its turn comes.
    """

    def __init__(
        self,
        controller_endpoint: Callable[[], Endpoint | None],
        make_peer: Callable[[Endpoint], Peer],
        metadata: MetadataCache,
    ) -> None:
        self._controller_endpoint = controller_endpoint
        self._make_peer = make_peer
        self._peer: Peer | None = None
        self._turn = asyncio.Lock()
        metadata.on_change(self._give_up_former)

    async def ask(self, message: object, response_type: type[R]) -> R:
        """Send a request and return its response, which may be NOT_CONTROLLER.

        Raises:
            OSError: the controller is unknown, or did not respond.
        """
        async with self.peer() as peer:
            return await peer.ask(message, response_type)

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        """Lend the connection, for several requests to the same controller.

        Raises:
            OSError: the controller is unknown.
        """
        self._give_up_former()
        async with self._turn:
            endpoint = self._endpoint()
            if self._peer is not None and self._peer.endpoint != endpoint:
                await self.close()
            if self._peer is None:
                self._peer = self._make_peer(endpoint)
            yield self._peer

    async def close(self) -> None:
        """Close the connection."""
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()

    def _give_up_former(self) -> None:
        """Fail a pending request to a former controller, so that its retry goes to the present one.

        The connection to a controller whose machine has vanished stays open without a response.
        """
        if self._peer is not None and self._peer.endpoint != self._controller_endpoint():
            self._peer.interrupt()

    def _endpoint(self) -> Endpoint:
        endpoint = self._controller_endpoint()
        if endpoint is None:
            raise PeerError("the controller is not known")
        return endpoint
