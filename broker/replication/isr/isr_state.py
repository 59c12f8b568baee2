"""The in-sync set of a partition as its leader holds it (decision).

The leader proposes, the controller decides, and responses can be lost. While a proposal is open,
the leader therefore assumes the worse of both outcomes: `maximal`, which the high watermark waits
for, includes a replica that is to join and still includes one that is to leave. `isr` is the set
known to be recorded, and counts for min.insync.replicas.

Source: KIP-497; kafka.cluster.Partition of Kafka 3.9.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, TypeAlias

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """In-sync set for the controller to record: members with their broker epochs, -1 if unknown."""

    isr: tuple[tuple[BrokerId, int], ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Committed:
    """No proposal is open."""

    isr: frozenset[BrokerId]

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Union of all sets that may be recorded."""
        return self.isr

    def expand(self, joining: BrokerId, joining_epoch: int) -> "PendingExpand":
        """Propose that the incarnation of a replica with a broker epoch joins."""
        assert joining not in self.isr
        return PendingExpand(isr=self.isr, joining=joining, joining_epoch=joining_epoch)

    def shrink(self, leaving: Set[BrokerId]) -> "PendingShrink":
        """Propose that replicas leave."""
        assert leaving, "a shrink removes a replica"
        assert leaving < self.isr, "a shrink keeps a replica of the set"
        return PendingShrink(self.isr, frozenset(leaving))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExpand:
    """A proposal to add `joining` to `isr` is open.

    `joining_epoch` is the broker epoch, -1 if unknown, of the incarnation that had enough records.
    """

    isr: frozenset[BrokerId]
    joining: BrokerId
    joining_epoch: int

    @property
    def proposed(self) -> frozenset[BrokerId]:
        """The set that the controller is asked to record."""
        return self.isr | {self.joining}

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Union of all sets that may be recorded: the proposal may have been accepted already."""
        return self.isr | {self.joining}


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """A proposal to remove `leaving` from `isr` is open."""

    isr: frozenset[BrokerId]
    leaving: frozenset[BrokerId]

    @property
    def proposed(self) -> frozenset[BrokerId]:
        """The set that the controller is asked to record."""
        return self.isr - self.leaving

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Union of all sets that may be recorded: the proposal may still be refused."""
        return self.isr


IsrState: TypeAlias = Committed | PendingExpand | PendingShrink

PROVES_UNCHANGED: Final = frozenset(
    {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}
)
"""Refusals that prove that the recorded set has not changed."""
WAITS_FOR_LEADERSHIP: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Refusals that prove nothing: an earlier copy of the proposal may have been recorded.

The leader stays cautious until the next LeaderAndIsr carries the recorded set.
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """Effect of a refusal: the next state, and whether to submit the proposal again."""

    state: IsrState
    may_retry: bool


def on_refusal(state: PendingExpand | PendingShrink, code: ErrorCode) -> Refused:
    """Return the state of an open proposal after the controller refused it with `code`."""
    if code in PROVES_UNCHANGED:
        return Refused(Committed(state.isr), may_retry=False)
    return Refused(state, may_retry=code not in WAITS_FOR_LEADERSHIP)
