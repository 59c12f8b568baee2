"""LeaderAndIsr: take over the roles that a controller gives (edge)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from functools import partial

from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.control_orders import is_legal, role_changes
from broker.replication.replica_manager import ReplicaManager
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from storage.directory import Logs


class LeaderAndIsrHandler:
    """Obeys one order after the other."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: Logs,
        learn_configs: Callable[[Set[str]], Awaitable[None]],
    ) -> None:
        """`learn_configs` reads those of topics of which logs are to be created."""
        self._replicas = replicas
        self._logs = logs
        self._learn_configs = learn_configs

    def handle(self, request: Request, message: LeaderAndIsrRequest) -> Reply:
        """Answer when it is done; what controllers ask waits for what they asked before."""
        work = partial(self._obey, message, request.header.api_version, request.connection.number)
        return self._replicas.control_queue.run(work)

    async def _obey(
        self, message: LeaderAndIsrRequest, version: int, connection: int
    ) -> LeaderAndIsrResponse:
        new_topics = self._new_topics(message)
        if new_topics:
            try:
                await self._learn_configs(new_topics)
            except SessionExpiredError:
                # With it went the registration that the controller means.
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return await self._replicas.become_leader_or_follower(message, version, connection)

    def _new_topics(self, message: LeaderAndIsrRequest) -> set[str]:
        """Return the topics of which logs are to be created."""
        ordered = [order.topic_partition for order in role_changes(message)]
        return {each.topic for each in ordered if is_legal(each) and self._logs.get(each) is None}
