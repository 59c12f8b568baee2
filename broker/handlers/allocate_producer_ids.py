"""AllocateProducerIds: only the controller allocates blocks of producer ids (edge)."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.handlers.from_brokers import from_broker
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import RequestTasks
from clusterstate.znodes.cluster import ProducerIdBlock
from kafkawire.apis import ApiKey
from kafkawire.ids import BrokerId
from kafkawire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

APIS: Final[Apis] = {
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda parts: from_broker(
        parts,
        AllocateProducerIdsHandler(parts.tasks, parts.controller).handle,
        AllocateProducerIdsResponse,
    ),
}


class AllocateProducerIdsHandler:
    """Hands the request to the controller component."""

    def __init__(self, tasks: RequestTasks, controller: ControllerRole) -> None:
        self._tasks = tasks
        self._controller = controller

    def handle(self, request: Request, message: AllocateProducerIdsRequest) -> Reply:
        """Respond with a block of ids that no other broker has or will get."""
        del request
        return self._tasks.run(partial(self._ask, message))

    async def _ask(self, message: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        result = await self._controller.allocate_producer_ids(
            BrokerId(message.broker_id), message.broker_epoch
        )
        if isinstance(result, ProducerIdBlock):
            count = result.last - result.first + 1
            return AllocateProducerIdsResponse(
                producer_id_start=result.first, producer_id_len=count
            )
        return AllocateProducerIdsResponse(error_code=result)
