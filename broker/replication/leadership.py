"""One broker's leadership of one partition, in one leader epoch (decision).

Determines the high watermark, the in-sync replicas and the proposal for the controller. Invariants:
every replica that may be in the recorded in-sync set holds every record below the high watermark;
the high watermark never moves back and never passes the log's end.

Source: kafka.cluster.Partition of Kafka 3.9; KIP-497, KIP-966 (no progress below min ISR).
"""

from collections.abc import Callable, Set
from dataclasses import dataclass

from broker.replication.isr.isr_membership import (
    NEVER_MS,
    UNKNOWN,
    FollowerProgress,
    lagging_followers,
    may_join,
)
from broker.replication.isr.isr_state import (
    Committed,
    IsrState,
    PendingExpand,
    PendingShrink,
    Proposal,
    on_refusal,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH

LiveEpoch = Callable[[BrokerId], int | None]
"""Epoch of a broker that is alive in the metadata, -1 if unknown; None for a dead broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings that a leadership obeys."""

    min_insync_replicas: int
    max_lag_ms: int


class Leadership:
    """State of a leader. Each method runs to its end before the next one is called."""

    def __init__(
        self,
        broker_id: BrokerId,
        recorded: LeaderAndIsr,
        *,
        replicas: Set[BrokerId],
        log_end_offset: Offset,
        high_watermark: Offset,
        limits: Limits,
        live_epoch: LiveEpoch,
        now_ms: int,
    ) -> None:
        """Begin to lead at `log_end_offset`, with nothing known of the followers' logs."""
        isr = frozenset(recorded.isr)
        assert broker_id in isr, "a leader is in sync with itself"
        self.broker_id = broker_id
        self.leader_epoch = recorded.leader_epoch
        self.partition_epoch = recorded.partition_epoch
        self._waits_for_leadership = False
        self.replicas = frozenset(replicas)
        self.log_end_offset = log_end_offset
        self.epoch_start_offset = log_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self.limits = limits
        self.has_min_isr = False
        """Whether enough replicas are known to be in sync. An attribute, as each append reads it.
        """
        self._live_epoch = live_epoch
        # The last step of a reassignment leaves brokers in the in-sync set that are no longer
        # replicas. They count as long as they are recorded, because they could be elected.
        self._followers = {
            one: FollowerProgress(caught_up_at_ms=now_ms if one in isr else NEVER_MS)
            for one in (self.replicas | isr) - {broker_id}
        }
        self.state: IsrState
        self._move_to(Committed(isr))
        self._advance_high_watermark(now_ms)

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas if that is smaller."""
        return min(self.limits.min_insync_replicas, len(self.replicas))

    @property
    def proposal_to_send(self) -> Proposal | None:
        """Proposal to send to the controller until it responds; None if there is none."""
        return None if self._waits_for_leadership else self.proposal

    @property
    def proposal(self) -> Proposal | None:
        """Open proposal. After some refusals it stays open until the next leadership."""
        if isinstance(self.state, Committed):
            return None
        members = tuple((one, self._epoch_of(one)) for one in sorted(self.state.proposed))
        return Proposal(
            isr=members, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch
        )

    @property
    def has_followers(self) -> bool:
        """Whether other brokers copy this partition."""
        return bool(self._followers)

    def on_append(self, next_offset: Offset, now_ms: int) -> None:
        """Note that this broker's log now ends at `next_offset`; without followers at any time."""
        assert next_offset > self.log_end_offset, "an append adds records"
        self.log_end_offset = next_offset
        if self._followers:
            self._advance_high_watermark(now_ms)
        elif self.has_min_isr:
            self.high_watermark = next_offset

    def on_fetch(
        self,
        follower: BrokerId,
        fetch_offset: Offset,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        log_start_offset: Offset = UNKNOWN,
    ) -> bool:
        """Note that `follower` holds every record from `log_start_offset` up to `fetch_offset`.

        Must not be called for a fetch that got a diverging epoch in response: the follower's
        records beyond that epoch are not from this log. Returns whether a proposal was opened.
        """
        progress = self._followers.get(follower)
        if progress is None:
            return False
        assert fetch_offset <= self.log_end_offset, "a follower is ahead of its leader"
        previous_end = progress.log_end_offset
        progress.log_start_offset = log_start_offset
        keeps_up = progress.on_fetch(fetch_offset, self.log_end_offset, now_ms, broker_epoch)
        opened = self._may_join(follower, keeps_up=keeps_up)
        if opened:
            assert isinstance(self.state, Committed)
            self._move_to(self.state.expand(follower, broker_epoch))
        if progress.log_end_offset != previous_end or opened:
            self._advance_high_watermark(now_ms)
        return opened

    def on_idle_fetch(self, follower: BrokerId, now_ms: int, broker_epoch: int) -> bool:
        """Note that `follower` fetches from its previous offset again, at the log's end.

        The follower may have been declared dead and registered again since then, with another
        `broker_epoch`. Returns whether a proposal was opened.
        """
        progress = self._followers.get(follower)
        if progress is None:
            return False
        if follower not in self._maximal and progress.log_end_offset >= 0:
            return self.on_fetch(
                follower,
                progress.log_end_offset,
                now_ms,
                broker_epoch,
                progress.log_start_offset,
            )
        progress.broker_epoch = broker_epoch
        progress.on_idle_fetch(self.log_end_offset, now_ms)
        return False

    def reconsider(self, now_ms: int) -> bool:
        """Advance the high watermark if a follower outside the in-sync set now lags or is dead.

        Returns whether the high watermark has advanced.
        """
        before = self.high_watermark
        if before < self.log_end_offset:
            self._advance_high_watermark(now_ms)
        return self.high_watermark != before

    def on_tick(self, now_ms: int) -> bool:
        """Propose to remove followers that have lagged too long; return whether there are any."""
        self.reconsider(now_ms)
        if not isinstance(self.state, Committed):
            return False
        leaving = lagging_followers(
            self._followers,
            self.state.isr,
            leader_end=self.log_end_offset,
            now_ms=now_ms,
            max_lag_ms=self.limits.max_lag_ms,
        )
        if leaving:
            self._move_to(self.state.shrink(leaving))
        return bool(leaving)

    def on_recorded(self, sent: Proposal, recorded: LeaderAndIsr, now_ms: int) -> None:
        """Adopt the recorded in-sync set. A response to an older proposal changes nothing."""
        if sent != self.proposal or recorded.leader_epoch != self.leader_epoch:
            return
        if recorded.partition_epoch < self.partition_epoch:
            return
        self._move_to(Committed(frozenset(recorded.isr)))
        self.partition_epoch = recorded.partition_epoch
        self._advance_high_watermark(now_ms)

    def on_refused(self, sent: Proposal, code: ErrorCode, now_ms: int) -> None:
        """Handle a refusal. `proposal_to_send` then returns the proposal if it is to be retried."""
        if sent != self.proposal or not isinstance(self.state, PendingExpand | PendingShrink):
            return
        refused = on_refusal(self.state, code)
        self._move_to(refused.state)
        self._waits_for_leadership = not (refused.may_retry or isinstance(self.state, Committed))
        self.reconsider(now_ms)

    def on_limits(self, limits: Limits, now_ms: int) -> None:
        """Adopt changed settings."""
        self.limits = limits
        self._move_to(self.state)
        self._advance_high_watermark(now_ms)

    def is_follower(self, broker_id: BrokerId) -> bool:
        """Whether `broker_id` copies this partition from this broker."""
        return broker_id in self._followers

    def in_sync_followers(self) -> list[tuple[BrokerId, FollowerProgress]]:
        """Return the followers in the ISR, each with its progress."""
        isr = self.state.isr
        return [(one, progress) for one, progress in self._followers.items() if one in isr]

    def log_start_of(self, follower: BrokerId) -> Offset:
        """Return a follower's log start offset as last reported, or UNKNOWN."""
        progress = self._followers.get(follower)
        return UNKNOWN if progress is None else progress.log_start_offset

    def low_watermark(self, log_start_offset: Offset) -> Offset:
        """Return the first offset that any live replica still has.

        `log_start_offset` is the start of this broker's own log.
        """
        lowest = log_start_offset
        for follower, progress in self._followers.items():
            if self._live_epoch(follower) is not None:
                lowest = min(lowest, progress.log_start_offset)
        return lowest

    def _move_to(self, state: IsrState) -> None:
        self.state = state
        self._maximal = state.maximal
        self.has_min_isr = len(state.isr) >= self.effective_min_isr

    def _may_join(self, follower: BrokerId, *, keeps_up: bool) -> bool:
        if not isinstance(self.state, Committed) or follower in self.state.isr:
            return False
        if follower not in self.replicas:
            return False
        has_enough = may_join(
            self._followers[follower],
            high_watermark=self.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            has_min_isr=self.has_min_isr,
            keeps_up=keeps_up,
        )
        return has_enough and self._is_eligible(follower)

    def _is_eligible(self, follower: BrokerId) -> bool:
        """Whether the incarnation of `follower` that fetches is the live one."""
        live, fetching = self._live_epoch(follower), self._followers[follower].broker_epoch
        return live is not None and (
            live == UNKNOWN_BROKER_EPOCH or fetching in (UNKNOWN_BROKER_EPOCH, live)
        )

    def _epoch_of(self, broker: BrokerId) -> int:
        if broker == self.broker_id:
            return self._live_epoch(broker) or UNKNOWN_BROKER_EPOCH
        if broker in self.state.isr:
            # The partition epoch proves that it is still recorded. It may have registered again in
            # the meantime, without another fetch of this partition.
            return UNKNOWN_BROKER_EPOCH
        assert isinstance(self.state, PendingExpand), "no other proposal has a new member"
        # Not the epoch of the latest fetch: the next incarnation may have lost records.
        return self.state.joining_epoch

    def _advance_high_watermark(self, now_ms: int) -> None:
        # Below min ISR nothing is committed: a consumer could read records that one crash can undo.
        if not self.has_min_isr:
            return
        slowest, maximal = self.log_end_offset, self._maximal
        for broker, progress in self._followers.items():
            if progress.log_end_offset >= slowest:
                continue
            if broker in maximal or self._is_about_to_join(broker, now_ms):
                slowest = progress.log_end_offset
        # Never moves back: consumers have read the records below it.
        if slowest > self.high_watermark:
            self.high_watermark = slowest

    def _is_about_to_join(self, broker: BrokerId, now_ms: int) -> bool:
        """Whether the high watermark waits for a caught-up replica outside the in-sync set.

        Without that wait the replica could never catch up.
        """
        progress = self._followers[broker]
        lag_ms = self.limits.max_lag_ms
        return progress.is_caught_up(self.log_end_offset, now_ms, lag_ms) and self._is_eligible(
            broker
        )
