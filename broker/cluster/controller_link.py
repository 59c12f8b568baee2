"""Requests of this broker to the current controller (edge)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.cluster.metadata_cache import Endpoint
from broker.replication.peer import Peer, PeerError

R = TypeVar("R")


class ControllerLink:
    """One connection to the current controller, opened when it is first needed."""

    def __init__(
        self,
        controller_endpoint: Callable[[], Endpoint | None],
        make_peer: Callable[[Endpoint], Peer],
    ) -> None:
        self._controller_endpoint = controller_endpoint
        self._make_peer = make_peer
        self._peer: Peer | None = None

    async def ask(self, message: object, response_type: type[R]) -> R:
        """Send a request and return its response, which may be NOT_CONTROLLER.

        Raises:
            OSError: the controller is unknown, or did not respond.
        """
        return await (await self.peer()).ask(message, response_type)

    async def peer(self) -> Peer:
        """Return the connection, for several requests to the same controller.

        Raises:
            OSError: the controller is unknown.
        """
        endpoint = self._controller_endpoint()
        if endpoint is None:
            raise PeerError("the controller is not known")
        if self._peer is not None and self._peer.endpoint != endpoint:
            await self.close()
        if self._peer is None:
            self._peer = self._make_peer(endpoint)
        return self._peer

    async def close(self) -> None:
        """Close the connection."""
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()
