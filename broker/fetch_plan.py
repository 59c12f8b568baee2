"""Which partitions a follower asks one leader for next, and which it lets rest (decision).

A partition that failed rests for a while, at first a very short one: just after an election a
follower may know of the new leader before the leader itself does. The others go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.config_keys.replication import ReplicationKeys
from kafkawire.ids import BrokerId, LeaderEpoch, Offset
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from broker.replica import Replica
    from broker.replica_table import Key

FIRST_BACKOFF_MS: Final = 10


class FollowedPartition:
    """A partition that is copied from one leader in one leader epoch."""

    __slots__ = ("_backoff_ms", "asked_offset", "leader_epoch", "ready_at_ms", "replica")

    def __init__(self, replica: Replica, leader_epoch: LeaderEpoch) -> None:
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.asked_offset = Offset(-1)
        self.ready_at_ms = 0
        self._backoff_ms = FIRST_BACKOFF_MS

    @property
    def is_current(self) -> bool:
        """Whether the log is still where it was when the last request was made."""
        return self.replica.log.log_end_offset == self.asked_offset

    @property
    def position(self) -> tuple[Offset, LeaderEpoch]:
        """Where the log ends, and the newest epoch in it: what a leader compares."""
        local = self.replica.log
        return local.log_end_offset, local.leader_epochs.latest

    def on_success(self) -> None:
        """Rest only shortly after the next failure."""
        self._backoff_ms = FIRST_BACKOFF_MS

    def on_failure(self, now_ms: int, max_backoff_ms: int) -> None:
        """Rest, each time in a row twice as long."""
        self.ready_at_ms = now_ms + min(self._backoff_ms, max_backoff_ms)
        self._backoff_ms = min(self._backoff_ms * 2, max(max_backoff_ms, FIRST_BACKOFF_MS))


class FetchPlan:
    """The partitions that are copied from one leader."""

    def __init__(self, broker_id: BrokerId, config: ReplicationKeys) -> None:
        self._broker_id = broker_id
        self._config = config
        self._partitions: dict[Key, FollowedPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, replica: Replica) -> None:
        """Copy a partition from now on, from where its log ends."""
        followed = FollowedPartition(replica, replica.leader_epoch)
        self._partitions[replica.topic_partition] = followed

    def remove(self, keys: Iterable[Key]) -> list[Replica]:
        """Copy these no more; return those that were copied."""
        found = [self._partitions.pop(key, None) for key in keys]
        return [each.replica for each in found if each is not None]

    def get(self, key: Key) -> FollowedPartition | None:
        """Return what is known of a partition; None if it is not copied from this leader."""
        return self._partitions.get(key)

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long nothing is to be asked: 0 for not at all, None for ever."""
        if not self._partitions:
            return None
        earliest = min(each.ready_at_ms for each in self._partitions.values())
        return max(0, earliest - now_ms)

    def request(self, now_ms: int) -> FetchRequest:
        """Return what to ask for now: the next records of all partitions that do not rest."""
        config = self._config
        max_wait_ms = config.replica_fetch_wait_max_ms
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), each in self._partitions.items():
            if each.ready_at_ms > now_ms:
                max_wait_ms = min(max_wait_ms, each.ready_at_ms - now_ms)
                continue
            local = each.replica.log
            each.asked_offset = local.log_end_offset
            wanted = FetchPartition(
                partition=index,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.asked_offset,
                last_fetched_epoch=local.leader_epochs.latest,
                log_start_offset=local.log_start_offset,
                partition_max_bytes=config.replica_fetch_max_bytes,
            )
            topics.setdefault(topic, []).append(wanted)
        return FetchRequest(
            replica_id=self._broker_id,
            max_wait_ms=max_wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
        )
