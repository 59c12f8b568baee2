"""Replicas on a real log in a test's directory, for tests of handlers."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import MetadataCache
from broker.handlers.leader_hint import LeaderHints
from broker.handlers.produce import ProduceHandler
from broker.handlers.transactional_produce import TransactionalProduce
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from broker.replication.leadership import Leadership, Limits
from broker.replication.replica import Replica
from broker.replication.replica_manager import ReplicaManager
from broker.transactions.verification import Asked, Codes
from broker.transactions.verifier import Coordinators, TransactionVerifier
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkawire.records import BatchBuilder
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.log.log import Log

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
MAX_LAG_MS = 1000
E0 = LeaderEpoch(0)


def make_manager(
    logs: Logs,
    metadata: MetadataCache,
    purgatory: Purgatory[TopicPartition],
    is_in_doubt: Callable[[], bool] = lambda: False,
) -> ReplicaManager:
    """Return the replica manager of broker 1, the only broker."""
    replicas = ReplicaManager(
        broker_id=B1,
        logs=logs,
        metadata=metadata,
        fence=ControlFence(),
        loop=asyncio.get_running_loop(),
        now_ms=lambda: NOW_MS,
        clock_ms=lambda: NOW_MS,
        log_config_of=lambda _topic: LogConfig(),
        is_in_doubt=is_in_doubt,
    )
    replicas.events.on_change(purgatory.on_change)
    return replicas


def lead_alone(replicas: ReplicaManager, local: Log, leader_epoch: LeaderEpoch = E0) -> Replica:
    """Let broker 1 lead `local` as its only replica, without a controller."""
    assert local.topic_id is not None
    replica = Replica(local.topic_partition, local.topic_id, local, Offset(0), lambda: NOW_MS)
    replicas.table.add(replica)
    replica.lead(
        Leadership(
            B1,
            LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1, leader_epoch=leader_epoch),
            replicas={B1},
            log_end_offset=local.log_end_offset,
            high_watermark=Offset(0),
            limits=Limits(
                min_insync_replicas=local.config.min_insync_replicas, max_lag_ms=MAX_LAG_MS
            ),
            live_epoch=lambda _broker_id: -1,
            now_ms=NOW_MS,
        )
    )
    return replica


class World:
    """One partition and its replica, with metadata, purgatory and replica manager."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        self.metadata = MetadataCache()
        self.purgatory: Purgatory[TopicPartition] = Purgatory(asyncio.get_running_loop())
        self.logs = logs = Logs.open(
            [directory / "logs"], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS
        )
        self.replicas = make_manager(logs, self.metadata, self.purgatory)
        topic_id = uuid.uuid4()
        self.log = logs.create(PARTITION, config or LogConfig(), topic_id, now_ms=NOW_MS)
        self.replica = lead_alone(self.replicas, self.log)

    def replicate_to(self, *isr: BrokerId, min_insync_replicas: int = 1) -> Leadership:
        """Give the partition three replicas, of which B1 and `isr` are in sync."""
        state = LeaderAndIsr(leader=B1, isr=(B1, *isr), controller_epoch=1)
        return self.lead_in(state, min_insync_replicas=min_insync_replicas)

    def lead_in(self, state: LeaderAndIsr, *, min_insync_replicas: int = 1) -> Leadership:
        """Begin another leadership."""
        leadership = Leadership(
            B1,
            state,
            replicas={B1, B2, B3},
            log_end_offset=self.log.log_end_offset,
            high_watermark=Offset(0),
            limits=Limits(min_insync_replicas=min_insync_replicas, max_lag_ms=MAX_LAG_MS),
            live_epoch=lambda _broker_id: -1,
            now_ms=NOW_MS,
        )
        self.replica.lead(leadership)
        return leadership

    def follower_fetches(self, follower: BrokerId, offset: int) -> None:
        """Simulate a fetch of a follower that holds all records below `offset`."""
        self.replicas.followers.on_fetch(
            PARTITION, follower, offset, broker_epoch=-1, log_start_offset=0, now_ms=NOW_MS
        )


class NoCoordinators:
    """A cluster without transaction coordinators."""

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        del transactional_id
        return None

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        del asked, partitions
        return None

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        raise OSError(f"no broker {broker_id} for {request}")


def make_produce_handler(
    replicas: ReplicaManager,
    purgatory: Purgatory[TopicPartition],
    tasks: RequestTasks,
    coordinators: Coordinators | None = None,
    *,
    is_verifying: Callable[[], bool] = lambda: True,
    now_ms: Callable[[], int] = lambda: NOW_MS,
    metadata: MetadataCache | None = None,
) -> ProduceHandler:
    """Return a handler that has transactions verified by `coordinators`.

    It names leaders with their addresses in `metadata`.
    """
    verifier = TransactionVerifier(coordinators or NoCoordinators(), tasks.loop)
    transactional = TransactionalProduce(
        replicas, verifier, is_enabled=is_verifying, clock_ms=lambda: NOW_MS
    )
    hints = None if metadata is None else LeaderHints(replicas.leader_of, metadata)
    return ProduceHandler(replicas, purgatory, now_ms, tasks, transactional, hints=hints)


def batch(*values: bytes) -> bytes:
    """Return one record batch."""
    builder = BatchBuilder()
    for value in values:
        builder.append(NOW_MS, b"key", value)
    return bytes(builder.build())


async def turn() -> None:
    """Run all scheduled callbacks, including the ones that they schedule."""
    for _ in range(3):
        await asyncio.sleep(0)
