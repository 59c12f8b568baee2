"""UpdateMetadata: the controller says who is alive and who leads what (decision)."""

from __future__ import annotations

from broker.control_fence import ControlFence
from broker.metadata_cache import MetadataCache
from broker.metadata_update import updated
from broker.reply import Reply
from broker.request_channel import Request
from kafkawire.errors import ErrorCode
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


class UpdateMetadataHandler:
    """Replaces the picture of the cluster, unless the request is of the past."""

    def __init__(self, metadata: MetadataCache, fence: ControlFence) -> None:
        self._metadata = metadata
        self._fence = fence

    def handle(self, request: Request, message: UpdateMetadataRequest) -> Reply:
        """Answer NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH."""
        refusal = self._fence.refuse(
            message.controller_epoch, message.broker_epoch, request.connection.number
        )
        if refusal is None:
            self._metadata.adopt(updated(self._metadata.image, message))
        return Reply(UpdateMetadataResponse(error_code=refusal or ErrorCode.NONE))
