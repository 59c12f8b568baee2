"""Assignment of a partition's replicas to brokers, during a reassignment too (decision)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.ids import BrokerId

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """All replicas of a partition; the first is the preferred leader.

    During a reassignment, `replicas` holds the target's replicas followed by the ones to remove.
    `adding` and `removing` are the replicas to add and to remove.
    """

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> Replicas:
        """Replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> Replicas:
        """Replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def reassign_to(self, target: Sequence[BrokerId]) -> "ReplicaAssignment":
        """Return the assignment that moves the partition from its origin to `target`.

        A reassignment in progress is replaced: its adding replicas are dropped unless the new
        target includes them.
        """
        origin = self.origin
        return ReplicaAssignment(
            replicas=tuple(dict.fromkeys((*target, *origin))),
            adding=tuple(replica for replica in target if replica not in origin),
            removing=tuple(replica for replica in origin if replica not in target),
        )
