"""StopReplica: stop or delete the replicas named by the controller (edge)."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.handlers.from_brokers import from_controller
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

APIS: Final[Apis] = {
    ApiKey.STOP_REPLICA: lambda parts: from_controller(
        parts, StopReplicaHandler(parts.replicas).handle, StopReplicaResponse
    ),
}


class StopReplicaHandler:
    """Handles one request after the other."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: StopReplicaRequest) -> Reply:
        """Respond when the request is done; control requests run in order of arrival."""
        work = partial(
            self._replicas.stop_replicas,
            message,
            request.header.api_version,
            request.connection.number,
        )
        return self._replicas.control_queue.run(work)
