"""LeaderAndIsr: take over the roles that a controller gives (edge)."""

from __future__ import annotations

from functools import partial

from broker.replica_manager import ReplicaManager
from broker.reply import Reply
from broker.request_channel import Request
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest


class LeaderAndIsrHandler:
    """Obeys one order after the other."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: LeaderAndIsrRequest) -> Reply:
        """Answer when it is done; what controllers ask waits for what they asked before."""
        work = partial(
            self._replicas.become_leader_or_follower,
            message,
            request.header.api_version,
            request.connection.number,
        )
        return self._replicas.control_queue.run(work)
