"""Which requests of controllers are obeyed (decision).

Three numbers fence them: the controller epoch (an older controller is refused), the broker epoch (a
request for an earlier life of this broker is refused), and per partition the leader epoch (what is
not newer than what was applied is left out). UpdateMetadata has no such number of its own: a copy
that was under way on a connection which the controller has given up must not undo what came over
the next one, so the connection counts too. Then requests may come late or twice, and the result is
that of the newest.

Source: KIP-380, KIP-570, KIP-516; kafka.server.ReplicaManager of Kafka 3.9.
"""

from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, LeaderEpoch, TopicId

UNKNOWN_BROKER_EPOCH: Final = -1
NO_LEADER_EPOCH: Final = -1
"""In a StopReplica: from a controller that does not know it."""
DELETED_LEADER_EPOCH: Final = -2
"""In a StopReplica: the topic is being deleted."""


class ControlFence:
    """What this broker has seen of controllers; `broker_epoch` changes when it registers anew."""

    __slots__ = ("_connection", "broker_epoch", "controller_epoch")

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.controller_epoch = 0
        self._connection = 0

    def refuse(
        self, controller_epoch: int, broker_epoch: int, connection: int = 0
    ) -> ErrorCode | None:
        """Return why a request is refused as a whole; None adopts its controller epoch.

        `connection` numbers this broker's connections in the order in which they were accepted.
        """
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if controller_epoch == self.controller_epoch and connection < self._connection:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        self._connection = connection
        return None


def refuse_leadership(
    current: LeaderEpoch | None,
    current_topic_id: TopicId | None,
    asked: int,
    asked_topic_id: TopicId,
) -> ErrorCode | None:
    """Return why a partition's new state is left out; None applies it."""
    is_known = current_topic_id not in (None, ZERO_TOPIC_ID)
    if is_known and asked_topic_id not in (ZERO_TOPIC_ID, current_topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if current is not None and asked <= current:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return None


def refuse_stop(current: LeaderEpoch | None, asked: int) -> ErrorCode | None:
    """Return why a replica is not stopped; None stops it."""
    if asked in (NO_LEADER_EPOCH, DELETED_LEADER_EPOCH) or current is None or asked >= current:
        return None
    return ErrorCode.FENCED_LEADER_EPOCH
