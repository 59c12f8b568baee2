"""Fences the requests of outdated controllers and leaderships (decision).

Three numbers decide. The controller epoch: an older controller is refused. The broker epoch: a
request for an earlier incarnation of this broker is refused. The leader epoch of a partition: a
state that is not newer than the applied one is skipped. UpdateMetadata has no number of its own. A
copy that is still in flight on a connection which the controller has given up must not undo a
request that came over the next connection, so the connection's number counts too. Requests may
therefore arrive late or twice, and the newest one prevails.

Source: KIP-380, KIP-570, KIP-516; kafka.server.ReplicaManager of Kafka 3.9.
"""

from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, LeaderEpoch, TopicId
from kafkawire.sentinels import NO_EPOCH, UNKNOWN_BROKER_EPOCH

DELETED_LEADER_EPOCH: Final = -2
"""In a StopReplica: the topic is being deleted."""


class ControlFence:
    """Newest epochs of controllers' requests; `broker_epoch` is set at each registration."""

    __slots__ = ("_connection", "broker_epoch", "controller_epoch")

    def __init__(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        self.broker_epoch = broker_epoch
        self.controller_epoch = 0
        self._connection = 0

    def refuse(
        self, controller_epoch: int, broker_epoch: int, connection: int = 0
    ) -> ErrorCode | None:
        """Return an error code to refuse a request as a whole; None adopts its controller epoch.

        `connection` is the number of this broker's connection, in the order of acceptance.
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
    requested: int,
    requested_topic_id: TopicId,
) -> ErrorCode | None:
    """Return an error code to skip a partition's new state; None applies it."""
    is_known = current_topic_id not in (None, ZERO_TOPIC_ID)
    if is_known and requested_topic_id not in (ZERO_TOPIC_ID, current_topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if current is not None and requested <= current:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return None


def refuse_stop(current: LeaderEpoch | None, requested: int) -> ErrorCode | None:
    """Return an error code to keep a replica running; None stops it."""
    if requested in (NO_EPOCH, DELETED_LEADER_EPOCH) or current is None or requested >= current:
        return None
    return ErrorCode.FENCED_LEADER_EPOCH
