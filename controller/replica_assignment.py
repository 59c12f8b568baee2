"""Which brokers hold a partition, also while it moves (decision)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.ids import BrokerId

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """All replicas of a partition; the first is the preferred leader.

    While the partition is reassigned, `replicas` are those of the target followed by those that
    leave; `adding` and `removing` say which are new and which go.
    """

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> Replicas:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> Replicas:
        """The replicas after it."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def reassign_to(self, target: Sequence[BrokerId]) -> "ReplicaAssignment":
        """Return the assignment that moves the partition from its origin to `target`.

        A move under way is replaced: what it was adding, and the new target lacks, is dropped.
        """
        origin = self.origin
        return ReplicaAssignment(
            replicas=tuple(dict.fromkeys((*target, *origin))),
            adding=tuple(replica for replica in target if replica not in origin),
            removing=tuple(replica for replica in origin if replica not in target),
        )
