"""Leader and in-sync replicas of a partition (decision)."""

from enum import IntEnum
from typing import Final, NamedTuple

from clusterstate.replica_assignment import Replicas
from kafkawire.ids import BrokerId, LeaderEpoch

LEADER_DURING_DELETE: Final = BrokerId(-2)
"""Leader of a topic under deletion in the metadata sent to brokers."""
EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)
INITIAL_LEADER_EPOCH: Final = LeaderEpoch(0)


class LeaderRecoveryState(IntEnum):
    """Whether the leader was elected from outside the in-sync set and may lack records."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """State of a partition as its znode holds it.

    `partition_epoch` is the version of the znode: it grows with every change and guards the next
    one. Invariant: `isr` is never empty.
    """

    leader: BrokerId
    isr: Replicas
    controller_epoch: int
    leader_epoch: LeaderEpoch = INITIAL_LEADER_EPOCH
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = 0

    def led_by(self, leader: BrokerId, isr: Replicas | None = None) -> "LeaderAndIsr":
        """Return the state led by `leader`, in the next leader epoch.

        The higher epoch fences a former leader and makes every follower check its log for
        divergence.
        """
        return self._replace(
            leader=leader,
            leader_epoch=LeaderEpoch(self.leader_epoch + 1),
            isr=self.isr if isr is None else isr,
        )

    def written(self, partition_epoch: int, controller_epoch: int) -> "LeaderAndIsr":
        """Return the state as it is after a write."""
        return self._replace(partition_epoch=partition_epoch, controller_epoch=controller_epoch)

    def same_content(self, other: "LeaderAndIsr") -> bool:
        """Whether both states are equal, apart from partition epoch and controller epoch."""
        return (
            self.leader == other.leader
            and self.leader_epoch == other.leader_epoch
            and set(self.isr) == set(other.isr)
            and self.recovery_state == other.recovery_state
        )
