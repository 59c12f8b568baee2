"""ControlledShutdown: the controller moves leaderships away from a stopping broker (edge)."""

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
from kafkawire.ids import BrokerId
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

APIS: Final[Apis] = {
    ApiKey.CONTROLLED_SHUTDOWN: lambda parts: from_broker(
        parts,
        ControlledShutdownHandler(parts.tasks, parts.controller).handle,
        ControlledShutdownResponse,
    ),
}


class ControlledShutdownHandler:
    """Hands the request to the controller component."""

    def __init__(self, tasks: RequestTasks, controller: ControllerRole) -> None:
        self._tasks = tasks
        self._controller = controller

    def handle(self, request: Request, message: ControlledShutdownRequest) -> Reply:
        """Respond with the partitions that the broker still leads."""
        del request
        return self._tasks.run(partial(self._ask, message))

    async def _ask(self, message: ControlledShutdownRequest) -> ControlledShutdownResponse:
        result = await self._controller.shut_down(BrokerId(message.broker_id), message.broker_epoch)
        if isinstance(result, ControlledShutdownResponse):
            return result
        return ControlledShutdownResponse(error_code=result)
