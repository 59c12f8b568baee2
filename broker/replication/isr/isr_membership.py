"""Decides which followers leave and which may join the in-sync set (decision).

`lagging_followers` leave: `isr_proposals` has each leadership check them twice per
`replica.lag.time.max.ms`. A follower joins with a fetch after which it `may_join`. A follower is
caught up once it has everything the leader had at the follower's previous fetch. Under load it is
never exactly at the log's end.

Source: KIP-16; kafka.cluster.Replica of Kafka 3.9.
"""

from collections.abc import Mapping, Set
from typing import Final

from kafkawire.ids import BrokerId, Offset
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH

UNKNOWN: Final = Offset(-1)
NEVER_REACHED: Final = Offset(2**63 - 1)
NEVER_MS: Final = -(2**53)
"""Before every time: the clock may count from the start of the machine."""


class FollowerProgress:
    """Progress of one follower through the leader's log, derived from its fetches."""

    __slots__ = (
        "_fetched_at_ms",
        "_leader_end_at_fetch",
        "broker_epoch",
        "caught_up_at_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, *, caught_up_at_ms: int) -> None:
        """Start with an unknown log; a follower that starts in sync counts as caught up now."""
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.caught_up_at_ms = caught_up_at_ms
        self._fetched_at_ms = NEVER_MS
        self._leader_end_at_fetch = NEVER_REACHED

    def on_fetch(
        self,
        fetch_offset: Offset,
        leader_end: Offset,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> bool:
        """Note a fetch: the follower holds everything below `fetch_offset` of the leader's log.

        Returns whether it holds everything that the leader had at the previous fetch.
        """
        is_at_end = fetch_offset >= leader_end
        keeps_up = is_at_end or fetch_offset >= self._leader_end_at_fetch
        if is_at_end:
            self.caught_up_at_ms = max(self.caught_up_at_ms, now_ms)
        elif keeps_up:
            self.caught_up_at_ms = max(self.caught_up_at_ms, self._fetched_at_ms)
        self.log_end_offset = fetch_offset
        self.broker_epoch = broker_epoch
        self._leader_end_at_fetch = leader_end
        self._fetched_at_ms = now_ms
        return keeps_up

    def on_idle_fetch(self, leader_end: Offset, now_ms: int) -> None:
        """Note another fetch from the same offset.

        The follower is caught up if that offset is the end of the log.
        """
        if self.log_end_offset >= leader_end:
            self.caught_up_at_ms = self._fetched_at_ms = now_ms

    def is_caught_up(self, leader_end: Offset, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower is at the log's end, or was at most `max_lag_ms` ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_at_ms <= max_lag_ms


def lagging_followers(
    followers: Mapping[BrokerId, FollowerProgress],
    isr: Set[BrokerId],
    *,
    leader_end: Offset,
    now_ms: int,
    max_lag_ms: int,
) -> set[BrokerId]:
    """Return the followers that must leave the in-sync set: not caught up for `max_lag_ms`."""
    return {
        broker_id
        for broker_id, progress in followers.items()
        if broker_id in isr and not progress.is_caught_up(leader_end, now_ms, max_lag_ms)
    }


def may_join(
    progress: FollowerProgress,
    *,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    has_min_isr: bool,
    keeps_up: bool,
) -> bool:
    """Whether a follower outside the in-sync set has enough records to join it.

    `keeps_up` is the result of its last `on_fetch`.
    """
    reached = progress.log_end_offset
    # A new leader's high watermark may be lower than the one its predecessor had reached.
    if reached < high_watermark or reached < epoch_start_offset:
        return False
    # Below min ISR the high watermark does not move, so reaching it proves little.
    return has_min_isr or keeps_up
