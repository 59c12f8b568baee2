"""The in-sync set of a partition as its leader holds it (decision).

The leader proposes, the controller decides, and answers can be lost. So while a proposal is open
the leader acts on the cautious reading of both: a replica that is to join already counts for the
high watermark (`maximal`), and one that is to leave still does; `isr` is what is known to be
recorded, and counts for min.insync.replicas.

Source: KIP-497; kafka.cluster.Partition of Kafka 3.9.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final, TypeAlias

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Committed:
    """No proposal is open."""

    isr: frozenset[BrokerId]

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Whoever may be in the recorded set."""
        return self.isr

    def expand(self, joining: BrokerId) -> "PendingExpand":
        """Propose that a replica joins."""
        assert joining not in self.isr
        return PendingExpand(self.isr, joining)

    def shrink(self, leaving: Set[BrokerId]) -> "PendingShrink":
        """Propose that replicas leave."""
        assert leaving, "nobody leaves"
        assert leaving < self.isr, "somebody stays"
        return PendingShrink(self.isr, frozenset(leaving))


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """It is proposed that `joining` joins `isr`."""

    isr: frozenset[BrokerId]
    joining: BrokerId

    @property
    def proposed(self) -> frozenset[BrokerId]:
        """The set that the controller is asked for."""
        return self.isr | {self.joining}

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Whoever may be in the recorded set: the controller may have said yes already."""
        return self.isr | {self.joining}


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """It is proposed that `leaving` leave `isr`."""

    isr: frozenset[BrokerId]
    leaving: frozenset[BrokerId]

    @property
    def proposed(self) -> frozenset[BrokerId]:
        """The set that the controller is asked for."""
        return self.isr - self.leaving

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Whoever may be in the recorded set: the controller may still say no."""
        return self.isr


IsrState: TypeAlias = Committed | PendingExpand | PendingShrink

PROVES_UNCHANGED: Final = frozenset(
    {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}
)
"""Refusals after which the recorded set is what it was before."""
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
"""Refusals that prove nothing: an earlier copy of the proposal may have been recorded. The leader
stays cautious until the next LeaderAndIsr says how it stands."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What to do about a refusal: the state to go on with, and whether to ask again."""

    state: IsrState
    ask_again: bool


def on_refusal(state: PendingExpand | PendingShrink, code: ErrorCode) -> Refused:
    """Return how an open proposal stands after the controller refused it."""
    if code in PROVES_UNCHANGED:
        return Refused(Committed(state.isr), ask_again=False)
    return Refused(state, ask_again=code not in WAITS_FOR_LEADERSHIP)
