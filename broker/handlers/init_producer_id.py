"""InitProducerId: an identity for an idempotent producer (edge)."""

from __future__ import annotations

from typing import Final

from broker.cluster.producer_ids import ProducerIds
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 0

APIS: Final[Apis] = {
    ApiKey.INIT_PRODUCER_ID: lambda parts: (
        InitProducerIdHandler(parts.tasks, parts.producer_ids).handle
    ),
}


class InitProducerIdHandler:
    """Allocates a new id for every producer without a transactional id."""

    def __init__(self, tasks: RequestTasks, producer_ids: ProducerIds) -> None:
        self._tasks = tasks
        self._producer_ids = producer_ids

    def handle(self, request: Request, message: InitProducerIdRequest) -> Reply:
        """Respond with a new id and epoch 0; refuse transactional producers permanently."""
        del request
        if error := _refusal(message):
            return Reply(InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH))
        return self._tasks.run(self._allocate)

    async def _allocate(self) -> InitProducerIdResponse:
        try:
            producer_id = await self._producer_ids.allocate()
        except ApiError as error:
            return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_EPOCH)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _refusal(message: InitProducerIdRequest) -> ErrorCode | None:
    has_id = message.producer_id != NO_PRODUCER_ID
    has_epoch = message.producer_epoch != NO_EPOCH
    if has_id != has_epoch or message.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if message.transactional_id is not None:
        # The code used by FindCoordinator: no client retries it.
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None
