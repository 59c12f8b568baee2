"""Which records are committed: in-sync replicas and the high watermark of one partition (decision).

The leader of a partition keeps one `Replication` per leader epoch. Invariant: every replica in
`isr` holds every record below `high_watermark`, and the high watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Set

from kafkawire.ids import BrokerId, Offset


class Replication:
    """The leader's knowledge of how far each replica of a partition has come.

    `high_watermark` and `log_end_offset` are exclusive. Today the leader is the only replica;
    followers enter through `on_fetch` and `on_isr_change`.
    """

    __slots__ = (
        "_end_offsets",
        "_has_min_isr",
        "_others_in_sync",
        "broker_id",
        "epoch_start_offset",
        "high_watermark",
        "isr",
        "log_end_offset",
        "min_insync_replicas",
        "replicas",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        replicas: Set[BrokerId],
        isr: Set[BrokerId],
        log_end_offset: Offset,
        high_watermark: Offset,
        min_insync_replicas: int = 1,
    ) -> None:
        """Start leading at `log_end_offset`, knowing of followers nothing."""
        assert broker_id in isr, "a leader is in sync with itself"
        assert isr <= replicas, "only replicas are in sync"
        self.broker_id = broker_id
        self.replicas = frozenset(replicas)
        self.log_end_offset = log_end_offset
        self.epoch_start_offset = log_end_offset
        # A restart can lose records that only the page cache held, and that were committed.
        self.high_watermark = min(high_watermark, log_end_offset)
        self._end_offsets: dict[BrokerId, Offset] = {}
        self.min_insync_replicas = min_insync_replicas
        self.on_isr_change(isr)

    @property
    def effective_min_isr(self) -> int:
        """How many in-sync replicas a write with acks=all needs: never more than exist."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def has_min_isr(self) -> bool:
        """Whether enough replicas are in sync to commit what is written."""
        return self._has_min_isr

    def on_append(self, next_offset: Offset) -> None:
        """Note that the leader's own log now ends at `next_offset`."""
        assert next_offset > self.log_end_offset, "an append adds records"
        self.log_end_offset = next_offset
        self._advance_high_watermark()

    def on_fetch(self, follower: BrokerId, fetch_offset: Offset) -> None:
        """Note that `follower` holds every record below `fetch_offset`."""
        assert fetch_offset <= self.log_end_offset, "a follower is ahead of its leader"
        self._end_offsets[follower] = fetch_offset
        self._advance_high_watermark()

    def may_join_isr(self, follower: BrokerId) -> bool:
        """Whether `follower` holds every committed record, so that it could lead.

        The high watermark of a new leader may lag behind what its predecessor committed, so a
        follower must also have reached the start of the leader's epoch.
        """
        end_offset = self._end_offset(follower)
        return end_offset >= self.high_watermark and end_offset >= self.epoch_start_offset

    def on_isr_change(self, isr: Set[BrokerId]) -> None:
        """Adopt the in-sync set that the controller has recorded."""
        assert self.broker_id in isr, "a leader is in sync with itself"
        self.isr = frozenset(isr)
        self._others_in_sync = tuple(self.isr - {self.broker_id})
        self._compare_with_min_isr()

    def on_config_change(self, min_insync_replicas: int) -> None:
        """Adopt a new `min.insync.replicas`."""
        self.min_insync_replicas = min_insync_replicas
        self._compare_with_min_isr()

    def _end_offset(self, follower: BrokerId) -> Offset:
        return self._end_offsets.get(follower, Offset(0))

    def _compare_with_min_isr(self) -> None:
        self._has_min_isr = len(self.isr) >= self.effective_min_isr
        self._advance_high_watermark()

    def _advance_high_watermark(self) -> None:
        # Below min ISR nothing is committed: a consumer would read what one crash can undo.
        if not self._has_min_isr:
            return
        slowest = self.log_end_offset
        for follower in self._others_in_sync:
            slowest = min(slowest, self._end_offset(follower))
        # Never back: consumers have read what lies below.
        if slowest > self.high_watermark:
            self.high_watermark = slowest
