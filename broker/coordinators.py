"""The coordinators of a broker: of groups and of transactions (composition).

Both keep their state in internal topics and take part in each other's work: a transaction commits
offsets of groups, and its markers release them. The leaders of partitions verify at a coordinator,
here or at another broker, that a transaction is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from broker.cluster.member import ClusterMember
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peers import Peers
from broker.cluster.producer_ids import ProducerIds
from broker.config.broker_config import BrokerConfig
from broker.groups.group_coordinator import GroupCoordinator
from broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from broker.replication.replica_manager import ReplicaManager
from broker.scheduler import PeriodicTask
from broker.serving import Serving
from broker.transactions.coordinator_links import CoordinatorLinks
from broker.transactions.marker_sender import MarkerSender, OnMarker
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_effects import ProducerIdentity
from broker.transactions.verifier import TransactionVerifier


class Coordinators:
    """The coordinators, and the verification of transactions. All follow changes of leadership."""

    def __init__(
        self,
        member: ClusterMember,
        metadata: MetadataCache,
        serving: Serving,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        *,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
    ) -> None:
        """Make the coordinators of the broker that `member` stands for."""
        timeout_ms = config.server.request_timeout_ms
        broker_id = member.identity.broker_id
        self.groups = GroupCoordinator(
            replicas,
            serving.purgatory,
            metadata,
            config.groups,
            loop=loop,
            executor=executor,
            now_ms=now_ms,
        )
        own_markers = WriteTxnMarkersHandler(
            replicas,
            serving.purgatory,
            serving.tasks,
            self.groups.transactions.on_markers,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )

        def make_sender(on_marker: OnMarker) -> MarkerSender:
            return MarkerSender(
                broker_id,
                metadata,
                peers=Peers(member.endpoint_of, member.make_peer),
                write_own=own_markers.write,
                on_marker=on_marker,
                loop=loop,
                timeout_ms=timeout_ms,
            )

        self.transactions = TransactionCoordinator(
            replicas,
            serving.purgatory,
            metadata,
            config.groups,
            producer_ids,
            make_sender,
            loop=loop,
            executor=executor,
            now_ms=now_ms,
            append_timeout_ms=timeout_ms,
        )
        self._links = CoordinatorLinks(
            broker_id,
            metadata,
            peers=Peers(member.endpoint_of, member.make_peer),
            timeout_ms=timeout_ms,
            verify_own=lambda asked, partitions: self.transactions.verify(
                asked.transactional_id,
                ProducerIdentity(asked.producer_id, asked.producer_epoch),
                partitions,
            ),
        )
        self.verifier = TransactionVerifier(self._links, loop)
        replicas.events.on_leadership(self.groups)
        replicas.events.on_leadership(self.transactions)

    def tasks(self) -> Iterator[PeriodicTask]:
        """Yield the periodic tasks of both coordinators."""
        yield self.groups.expiry_task()
        yield from self.transactions.tasks()

    async def stop(self) -> None:
        """Stop the verification; the coordinators stop before the connections close."""
        await self.verifier.stop()
        await self._links.close()
