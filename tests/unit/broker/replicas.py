"""Replicas on a real log in a test's directory, for tests of handlers."""

import asyncio
import uuid
from pathlib import Path

from broker.metadata_cache import MetadataCache
from broker.purgatory import Purgatory
from broker.replica import Replica
from broker.replica_manager import ReplicaManager
from broker.replication import Replication
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder
from storage.config import LogConfig
from storage.log import Log

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


class World:
    """One partition, its replica, and all that finds and wakes it."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        self.metadata = MetadataCache()
        self.purgatory: Purgatory[TopicPartition] = Purgatory(asyncio.get_running_loop())
        self.replicas = ReplicaManager(self.metadata, self.purgatory)
        path = directory / str(PARTITION)
        path.mkdir()
        self.log = Log.open(
            path,
            config or LogConfig(),
            topic_partition=PARTITION,
            recovery_point=Offset(0),
            log_start_offset=Offset(0),
            was_clean=True,
            now_ms=NOW_MS,
        )
        self.replica = Replica(
            PARTITION,
            uuid.uuid4(),
            self.log,
            broker_id=B1,
            leader_epoch=LeaderEpoch(0),
            high_watermark=Offset(0),
        )
        self.replicas.add(self.replica)

    def replicate_to(self, *isr: BrokerId, min_insync_replicas: int = 1) -> Replication:
        """Give the partition three replicas, of which B1 and `isr` are in sync."""
        self.replica.replication = Replication(
            B1,
            replicas={B1, B2, B3},
            isr={B1, *isr},
            log_end_offset=self.log.log_end_offset,
            high_watermark=Offset(0),
            min_insync_replicas=min_insync_replicas,
        )
        return self.replica.replication

    def follower_fetches(self, follower: BrokerId, offset: int) -> None:
        """Let a follower say that it holds all below `offset`."""
        self.replica.replication.on_fetch(follower, Offset(offset))
        self.purgatory.on_change(PARTITION)


def batch(*values: bytes) -> bytes:
    """Return one record batch."""
    builder = BatchBuilder()
    for value in values:
        builder.append(NOW_MS, b"key", value)
    return bytes(builder.build())


async def turn() -> None:
    """Let everything that is scheduled now run, and what that schedules."""
    for _ in range(3):
        await asyncio.sleep(0)
