"""Finds transaction coordinators, and has them verify transactions (edge)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers import Peers
from broker.transactions.verification import Asked, Codes
from kafkawire.apis import ApiKey
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC, partition_for
from kafkawire.messages.transactions import (
    TRANSACTIONS_SINCE,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkawire.sentinels import NO_LEADER

VerifyOwn = Callable[[Asked, Iterable[TopicPartition]], Codes]


class CoordinatorLinks:
    """A connection to each coordinator, opened when it is first needed."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: MetadataCache,
        *,
        peers: Peers,
        timeout_ms: int,
        verify_own: VerifyOwn | None = None,
    ) -> None:
        """Wait up to `timeout_ms` for an answer; `verify_own` asks this broker's coordinator."""
        self._broker_id = broker_id
        self._metadata = metadata
        self._peers = peers
        self._timeout_ms = timeout_ms
        self._verify_own = verify_own
        metadata.on_change(peers.give_up_lost)

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        """Return the leader of the id's partition; None while there is none."""
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None or not topic.partitions:
            return None
        state = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        leader = NO_LEADER if state is None else state.leader_and_isr.leader
        return None if leader == NO_LEADER else leader

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        """Return the answer of this broker, if it is the coordinator of the transaction."""
        if (
            self._verify_own is None
            or self.coordinator_of(asked.transactional_id) != self._broker_id
        ):
            return None
        return self._verify_own(asked, partitions)

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        """Ask a broker; None means that it is too old to verify anything.

        Raises:
            OSError: it is unreachable, or did not answer in time.
        """
        peer = await self._peers.peer(broker_id)
        version = await peer.choose_version(ApiKey.ADD_PARTITIONS_TO_TXN)
        if version < TRANSACTIONS_SINCE:
            return None
        return await peer.ask(
            request, AddPartitionsToTxnResponse, version=version, timeout_ms=self._timeout_ms
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._peers.close()
