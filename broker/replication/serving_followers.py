"""The leader's side of replication: serves followers, and tracks their progress (edge).

The fetch offset of a follower is the end of its log, so serving it moves the high watermark and may
change the in-sync set. Every method must be called in the event loop's thread.
"""

from __future__ import annotations

from broker.errors import storage_failure
from broker.replication.replica import ReadResult
from broker.replication.replica_table import Key, ReplicaTable
from broker.replication.replication_throttle import leader_throttle
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, Offset, TopicId
from kafkawire.sentinels import NO_EPOCH
from storage.errors import StorageError


class FollowerService:
    """Serves followers."""

    def __init__(self, broker_id: BrokerId, table: ReplicaTable) -> None:
        self.throttle = leader_throttle(broker_id)
        """Limits the rate of partitions that an operator throttles."""
        self._table = table
        self._by_key = table.by_key
        self._events = table.events

    def read(
        self,
        key: Key,
        follower: BrokerId,
        offset: int,
        max_bytes: int,
        *,
        leader_epoch: int,
        last_fetched_epoch: int,
        min_one_batch: bool,
        topic_id: TopicId = ZERO_TOPIC_ID,
    ) -> ReadResult:
        """Read up to the log's end for a broker that copies the partition.

        Raises:
            ApiError: as for a consumer, or `follower` is no replica of the partition here (yet).
        """
        replica = self._table.leader(key, leader_epoch, topic_id)
        if replica.leadership is None or not replica.leadership.is_follower(follower):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if leader_epoch == NO_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {follower} is no replica of the partition",
            )
        try:
            return replica.read(
                offset,
                max_bytes,
                last_fetched_epoch=last_fetched_epoch,
                only_committed=False,
                min_one_batch=min_one_batch,
            )
        except (StorageError, OSError) as error:
            raise storage_failure(key, error) from error

    def is_held_back(self, key: Key, follower: BrokerId, now_ms: int) -> bool:
        """Whether the throttle withholds records from a follower outside the in-sync set."""
        replica = self._by_key.get(key)
        leadership = None if replica is None else replica.leadership
        if replica is None or leadership is None or not self.throttle.covers(replica):
            return False
        is_in_sync = follower in leadership.state.isr
        return not is_in_sync and self.throttle.pause_ms(now_ms) > 0

    def on_sent(self, key: Key, size_bytes: int, now_ms: int) -> None:
        """Count the bytes for a follower, if the partition is throttled."""
        replica = self._by_key.get(key)
        if replica is not None and self.throttle.covers(replica):
            self.throttle.record(size_bytes, now_ms)

    def on_fetch(
        self,
        key: Key,
        follower: BrokerId,
        offset: int,
        *,
        broker_epoch: int,
        log_start_offset: int,
        now_ms: int,
    ) -> Offset:
        """Note the progress of a follower after a read for it; return the high watermark.

        Call it only for a fetch whose offset is in this log and whose epochs match this log's.
        """
        replica = self._by_key[key]
        leadership = replica.leadership
        assert leadership is not None, "the partition was read in this turn of the event loop"
        before = (leadership.high_watermark, leadership.log_start_of(follower))
        wants_change = leadership.on_fetch(
            follower, Offset(offset), now_ms, broker_epoch, Offset(log_start_offset)
        )
        if (leadership.high_watermark, Offset(log_start_offset)) != before:
            self._events.changed(replica.topic_partition)
        if wants_change:
            self._events.isr_proposed(replica.topic_partition)
        return leadership.high_watermark

    def end_offset_in(self, key: Key, leader_epoch: int) -> Offset | None:
        """Return the log end offset of a partition led in `leader_epoch`, else None."""
        replica = self._by_key.get(key)
        if replica is None or replica.leadership is None:
            return None
        if leader_epoch not in (NO_EPOCH, replica.leader_epoch):
            return None
        return replica.log.log_end_offset

    def on_idle(
        self, key: Key, follower: BrokerId, now_ms: int, *, broker_epoch: int
    ) -> tuple[Offset, Offset] | None:
        """Note that a follower which lacks no record still fetches.

        Returns the high watermark and the log start offset; None if this broker no longer leads.
        """
        replica = self._by_key.get(key)
        leadership = None if replica is None else replica.leadership
        if replica is None or leadership is None:
            return None
        if leadership.on_idle_fetch(follower, now_ms, broker_epoch):
            self._events.isr_proposed(replica.topic_partition)
        return leadership.high_watermark, replica.log.log_start_offset
