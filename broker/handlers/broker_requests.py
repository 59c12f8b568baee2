"""AlterPartition, ControlledShutdown, AllocateProducerIds: brokers ask the controller (edge)."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.handlers.from_brokers import from_broker
from broker.handlers.handler_table import Apis, Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from clusterstate.znodes.cluster_node import ProducerIdBlock
from kafkawire.apis import ApiKey
from kafkawire.ids import BrokerId
from kafkawire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

APIS: Final[Apis] = {
    ApiKey.ALTER_PARTITION: lambda parts: from_broker(
        parts, _handler(parts).alter_partition, AlterPartitionResponse
    ),
    ApiKey.CONTROLLED_SHUTDOWN: lambda parts: from_broker(
        parts, _handler(parts).shut_down, ControlledShutdownResponse
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda parts: from_broker(
        parts, _handler(parts).allocate_producer_ids, AllocateProducerIdsResponse
    ),
}


class BrokerRequestHandler:
    """Hands the requests to the controller component."""

    def __init__(self, tasks: RequestTasks, controller: ControllerRole) -> None:
        self._tasks = tasks
        self._controller = controller

    def alter_partition(self, request: Request, message: AlterPartitionRequest) -> Reply:
        """Respond with the recorded partition states."""
        return self._tasks.run(partial(self._alter, message, request.header.api_version))

    def shut_down(self, request: Request, message: ControlledShutdownRequest) -> Reply:
        """Respond with the partitions that the broker still leads."""
        del request
        return self._tasks.run(partial(self._shut_down, message))

    def allocate_producer_ids(self, request: Request, message: AllocateProducerIdsRequest) -> Reply:
        """Respond with a block of ids that no other broker has or will get."""
        del request
        return self._tasks.run(partial(self._allocate, message))

    async def _alter(self, message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        result = await self._controller.alter_partition(message, version)
        if isinstance(result, AlterPartitionResponse):
            return result
        return AlterPartitionResponse(error_code=result)

    async def _shut_down(self, message: ControlledShutdownRequest) -> ControlledShutdownResponse:
        result = await self._controller.shut_down(BrokerId(message.broker_id), message.broker_epoch)
        if isinstance(result, ControlledShutdownResponse):
            return result
        return ControlledShutdownResponse(error_code=result)

    async def _allocate(self, message: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        result = await self._controller.allocate_producer_ids(
            BrokerId(message.broker_id), message.broker_epoch
        )
        if isinstance(result, ProducerIdBlock):
            count = result.last - result.first + 1
            return AllocateProducerIdsResponse(
                producer_id_start=result.first, producer_id_len=count
            )
        return AllocateProducerIdsResponse(error_code=result)


def _handler(parts: Parts) -> BrokerRequestHandler:
    return BrokerRequestHandler(parts.tasks, parts.controller)
