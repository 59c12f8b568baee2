"""LeaderAndIsr: take over the roles assigned by the controller (edge)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import Final

from broker.handlers.from_brokers import from_controller
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.control_orders import is_legal, role_changes
from broker.replication.replica_manager import ReplicaManager
from coordination.errors import SessionExpiredError
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from storage.directory.logs import Logs

APIS: Final[Apis] = {
    ApiKey.LEADER_AND_ISR: lambda parts: from_controller(
        parts,
        LeaderAndIsrHandler(parts.replicas, parts.logs, parts.configs.topics.refresh).handle,
        LeaderAndIsrResponse,
    ),
}


class LeaderAndIsrHandler:
    """Handles one request after the other."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: Logs,
        learn_configs: Callable[[Set[str]], Awaitable[None]],
    ) -> None:
        """Call `learn_configs` to read the configs of topics before their logs are created."""
        self._replicas = replicas
        self._logs = logs
        self._learn_configs = learn_configs

    def handle(self, request: Request, message: LeaderAndIsrRequest) -> Reply:
        """Respond when the request is done; control requests run in order of arrival."""
        work = partial(self._apply, message, request.header.api_version, request.connection.number)
        return self._replicas.control_queue.run(work)

    async def _apply(
        self, message: LeaderAndIsrRequest, version: int, connection: int
    ) -> LeaderAndIsrResponse:
        new_topics = self._new_topics(message)
        if new_topics:
            try:
                await self._learn_configs(new_topics)
            except SessionExpiredError:
                # The registration that the controller addresses ended with the session.
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return await self._replicas.become_leader_or_follower(message, version, connection)

    def _new_topics(self, message: LeaderAndIsrRequest) -> set[str]:
        """Return the topics of the logs to be created."""
        changed = [change.topic_partition for change in role_changes(message)]
        return {each.topic for each in changed if is_legal(each) and self._logs.get(each) is None}
