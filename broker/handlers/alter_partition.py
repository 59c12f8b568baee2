"""AlterPartition: a leader proposes in-sync sets, and the controller records them (edge)."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.handlers.from_brokers import from_broker
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

APIS: Final[Apis] = {
    ApiKey.ALTER_PARTITION: lambda parts: from_broker(
        parts, AlterPartitionHandler(parts.tasks, parts.controller).handle, AlterPartitionResponse
    ),
}


class AlterPartitionHandler:
    """Hands the request to the controller component."""

    def __init__(self, tasks: RequestTasks, controller: ControllerRole) -> None:
        self._tasks = tasks
        self._controller = controller

    def handle(self, request: Request, message: AlterPartitionRequest) -> Reply:
        """Respond with the recorded partition states."""
        return self._tasks.run(partial(self._ask, message, request.header.api_version))

    async def _ask(self, message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        result = await self._controller.alter_partition(message, version)
        if isinstance(result, AlterPartitionResponse):
            return result
        return AlterPartitionResponse(error_code=result)
