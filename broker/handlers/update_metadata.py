"""UpdateMetadata: live brokers and partition leaders, sent by the controller (decision)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.metadata_update import deleted_partitions, updated
from broker.handlers.from_brokers import from_controller
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.control_fence import ControlFence
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

APIS: Final[Apis] = {
    ApiKey.UPDATE_METADATA: lambda parts: from_controller(
        parts,
        UpdateMetadataHandler(
            parts.metadata, parts.replicas.roles.fence, parts.groups.commits.on_partitions_deleted
        ).handle,
        UpdateMetadataResponse,
    ),
}


class UpdateMetadataHandler:
    """Updates the cluster image, unless the request is stale."""

    def __init__(
        self,
        metadata: MetadataCache,
        fence: ControlFence,
        on_deleted: Callable[[Sequence[TopicPartition]], None] = lambda _partitions: None,
    ) -> None:
        """Call `on_deleted` with deleted partitions, so that groups drop their offsets."""
        self._metadata = metadata
        self._fence = fence
        self._on_deleted = on_deleted

    def handle(self, request: Request, message: UpdateMetadataRequest) -> Reply:
        """Respond with NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH."""
        refusal = self._fence.refuse(
            message.controller_epoch, message.broker_epoch, request.connection.number
        )
        if refusal is None:
            self._metadata.adopt(updated(self._metadata.image, message))
            if deleted := deleted_partitions(message):
                self._on_deleted(deleted)
        return Reply(UpdateMetadataResponse(error_code=refusal or ErrorCode.NONE))
