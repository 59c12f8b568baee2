"""One broker's leadership of one partition, in one leader epoch (decision).

It says what is committed (the high watermark), who is in sync, and what the controller is to be
asked. Invariants: every replica that may be in the recorded in-sync set holds every record below
the high watermark; the high watermark never goes back and never passes the log's end.

Source: kafka.cluster.Partition of Kafka 3.9; KIP-497, KIP-966 (no progress below min ISR).
"""

from collections.abc import Callable, Set
from dataclasses import dataclass

from broker.replication.follower_progress import NO_EPOCH, UNKNOWN, FollowerProgress
from broker.replication.isr_state import (
    Committed,
    IsrState,
    PendingExpand,
    PendingShrink,
    on_refusal,
)
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset

LiveEpoch = Callable[[BrokerId], int | None]
"""The epoch of a broker that the metadata calls alive, -1 if it says none; None of a dead one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the controller is asked to record: members with their broker epochs, -1 unknown."""

    isr: tuple[tuple[BrokerId, int], ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the controller answers that it has recorded."""

    isr: frozenset[BrokerId]
    leader_epoch: LeaderEpoch
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The settings that a leadership obeys."""

    min_insync_replicas: int
    max_lag_ms: int


class Leadership:
    """State of a leader. Every method runs to its end before the next one is called."""

    def __init__(
        self,
        broker_id: BrokerId,
        recorded: Recorded,
        *,
        replicas: Set[BrokerId],
        log_end_offset: Offset,
        high_watermark: Offset,
        limits: Limits,
        live_epoch: LiveEpoch,
        now_ms: int,
    ) -> None:
        """Lead from `log_end_offset` on, knowing of the followers' logs nothing."""
        assert broker_id in recorded.isr, "a leader is in sync with itself"
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
        """Whether enough replicas are known to be in sync; an attribute, as appends ask for it."""
        self._live_epoch = live_epoch
        # A reassignment's last step leaves members in the set that are no replicas any more. As
        # long as they are recorded they could be elected, so they count.
        self._followers = {
            one: FollowerProgress(caught_up_at_ms=now_ms if one in recorded.isr else 0)
            for one in (self.replicas | recorded.isr) - {broker_id}
        }
        self.state: IsrState
        self._move_to(Committed(recorded.isr))
        self._advance(now_ms)

    @property
    def effective_min_isr(self) -> int:
        """How many in-sync replicas a commit needs: never more than exist."""
        return min(self.limits.min_insync_replicas, len(self.replicas))

    @property
    def question(self) -> Proposal | None:
        """What to ask the controller, until it answers; None when there is nothing to ask."""
        return None if self._waits_for_leadership else self.proposal

    @property
    def proposal(self) -> Proposal | None:
        """The change that is open; after some refusals it stays so until the next leadership."""
        if isinstance(self.state, Committed):
            return None
        members = tuple((one, self._epoch_of(one)) for one in sorted(self.state.proposed))
        return Proposal(
            isr=members, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch
        )

    def on_append(self, next_offset: Offset, now_ms: int) -> None:
        """Note that the own log now ends at `next_offset`."""
        assert next_offset > self.log_end_offset, "an append adds records"
        self.log_end_offset = next_offset
        if self._followers:
            self._advance(now_ms)
        elif self.has_min_isr:
            self.high_watermark = next_offset

    def on_fetch(
        self,
        follower: BrokerId,
        fetch_offset: Offset,
        now_ms: int,
        broker_epoch: int = NO_EPOCH,
        log_start_offset: Offset = UNKNOWN,
    ) -> bool:
        """Note that `follower` holds every record from `log_start_offset` up to `fetch_offset`.

        A fetch that was answered with a diverging epoch must not come here: what the follower
        holds beyond that is not our log. Returns whether a proposal was opened.
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
            self._move_to(self.state.expand(follower))
        if progress.log_end_offset != previous_end or opened:
            self._advance(now_ms)
        return opened

    def on_idle_fetch(self, follower: BrokerId, now_ms: int, broker_epoch: int) -> bool:
        """Note that `follower` asks again for what comes behind the log's end, where it was.

        It may have been declared dead and registered anew meanwhile: `broker_epoch` tells.
        Returns whether a proposal was opened.
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
        progress.on_still_there(self.log_end_offset, now_ms)
        return False

    def reconsider(self, now_ms: int) -> bool:
        """Look again whom to wait for: one outside the set may lag by now, or have died.

        Returns whether the high watermark has advanced.
        """
        before = self.high_watermark
        if before < self.log_end_offset:
            self._advance(now_ms)
        return self.high_watermark != before

    def on_tick(self, now_ms: int) -> bool:
        """Propose that followers leave which have lagged too long; return whether any."""
        self.reconsider(now_ms)
        if not isinstance(self.state, Committed):
            return False
        max_lag_ms = self.limits.max_lag_ms
        lagging = {
            one
            for one, follower in self._followers.items()
            if one in self.state.isr
            and not follower.is_caught_up(self.log_end_offset, now_ms, max_lag_ms)
        }
        if lagging:
            self._move_to(self.state.shrink(lagging))
        return bool(lagging)

    def on_recorded(self, asked: Proposal, recorded: Recorded, now_ms: int) -> None:
        """Adopt what the controller has recorded; an answer to something older changes nothing."""
        if asked != self.proposal or recorded.leader_epoch != self.leader_epoch:
            return
        if recorded.partition_epoch < self.partition_epoch:
            return
        self._move_to(Committed(recorded.isr))
        self.partition_epoch = recorded.partition_epoch
        self._advance(now_ms)

    def on_refused(self, asked: Proposal, code: ErrorCode, now_ms: int) -> None:
        """Take a refusal; `question` says whether to ask again."""
        if asked != self.proposal or not isinstance(self.state, PendingExpand | PendingShrink):
            return
        refused = on_refusal(self.state, code)
        self._move_to(refused.state)
        self._waits_for_leadership = not (refused.ask_again or isinstance(self.state, Committed))
        self.reconsider(now_ms)

    def on_limits(self, limits: Limits, now_ms: int) -> None:
        """Adopt changed settings."""
        self.limits = limits
        self._move_to(self.state)
        self._advance(now_ms)

    def is_follower(self, broker_id: BrokerId) -> bool:
        """Whether `broker_id` is told to copy this partition."""
        return broker_id in self._followers

    def log_start_of(self, follower: BrokerId) -> Offset:
        """Return where a follower's log starts, as far as it has told."""
        progress = self._followers.get(follower)
        return UNKNOWN if progress is None else progress.log_start_offset

    def low_watermark(self, log_start_offset: Offset) -> Offset:
        """Return the first offset that any replica alive still has, our log starting there."""
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
        progress = self._followers[follower]
        reached = progress.log_end_offset
        # The watermark of a new leader lags behind what its predecessor committed.
        if reached < self.high_watermark or reached < self.epoch_start_offset:
            return False
        # Below min ISR the watermark stands still and says little about how far others are.
        if not self.has_min_isr and not keeps_up:
            return False
        return self._is_eligible(follower)

    def _is_eligible(self, follower: BrokerId) -> bool:
        """Whether the incarnation that fetches is the one that is alive."""
        live, fetching = self._live_epoch(follower), self._followers[follower].broker_epoch
        return live is not None and (live == NO_EPOCH or fetching in (NO_EPOCH, live))

    def _epoch_of(self, broker: BrokerId) -> int:
        if broker == self.broker_id:
            return self._live_epoch(broker) or NO_EPOCH
        return self._followers[broker].broker_epoch

    def _advance(self, now_ms: int) -> None:
        # Below min ISR nothing is committed: a consumer would read what one crash can undo.
        if not self.has_min_isr:
            return
        slowest, maximal = self.log_end_offset, self._maximal
        for broker, progress in self._followers.items():
            if progress.log_end_offset >= slowest:
                continue
            if broker in maximal or self._is_about_to_join(broker, now_ms):
                slowest = progress.log_end_offset
        # Never back: consumers have read what lies below.
        if slowest > self.high_watermark:
            self.high_watermark = slowest

    def _is_about_to_join(self, broker: BrokerId, now_ms: int) -> bool:
        """Whether to wait for a replica outside the set, which else could never catch up."""
        progress = self._followers[broker]
        lag_ms = self.limits.max_lag_ms
        return progress.is_caught_up(self.log_end_offset, now_ms, lag_ms) and self._is_eligible(
            broker
        )
