"""Connections to other brokers, by broker id (edge)."""

from __future__ import annotations

from collections.abc import Callable

from broker.cluster.metadata_cache import Endpoint
from broker.cluster.peer import Peer, PeerError
from kafkawire.ids import BrokerId


class Peers:
    """One connection to each broker, opened when it is first needed."""

    def __init__(
        self,
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        make_peer: Callable[[Endpoint], Peer],
    ) -> None:
        self._endpoint_of = endpoint_of
        self._make_peer = make_peer
        self._peers: dict[BrokerId, Peer] = {}

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether the broker is registered, so that it can be asked."""
        return self._endpoint_of(broker_id) is not None

    async def peer(self, broker_id: BrokerId) -> Peer:
        """Return the connection to a broker; one to a former address is closed.

        Raises:
            PeerError: the broker is not registered.
        """
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            raise PeerError(f"broker {broker_id} is not alive")
        former = self._peers.get(broker_id)
        if former is not None and former.endpoint == endpoint:
            return former
        peer = self._peers[broker_id] = self._make_peer(endpoint)
        if former is not None:
            await former.close()
        return peer

    def give_up_lost(self) -> None:
        """Fail the requests to brokers that are no longer at the address that was asked.

        A broker that hangs keeps its connections open; the leaderships that it lost with its
        session are elsewhere long before a request to it times out.
        """
        for broker_id, peer in self._peers.items():
            if self._endpoint_of(broker_id) != peer.endpoint:
                peer.interrupt()

    async def close(self) -> None:
        """Close all connections."""
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            await peer.close()
