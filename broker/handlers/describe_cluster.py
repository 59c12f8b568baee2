"""DescribeCluster: the brokers and the controller (decision)."""

from __future__ import annotations

from typing import Final

from broker.cluster.metadata_cache import MetadataCache
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from kafkawire.acl import OPERATION_BITS, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR

ENDPOINT_TYPE_BROKERS: Final = 1
ENDPOINT_TYPE_CONTROLLERS: Final = 2

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_CLUSTER: lambda parts: (
        DescribeClusterHandler(parts.metadata, parts.identity.cluster_id).handle
    ),
}


class DescribeClusterHandler:
    """Answers from the metadata cache."""

    def __init__(self, metadata: MetadataCache, cluster_id: str) -> None:
        self._metadata = metadata
        self._cluster_id = cluster_id

    def handle(self, request: Request, message: DescribeClusterRequest) -> Reply:
        """Respond with the brokers that have an endpoint for the request's listener."""
        if message.endpoint_type != ENDPOINT_TYPE_BROKERS:
            return Reply(_refuse(message.endpoint_type))
        image = self._metadata.image
        asks = message.include_cluster_authorized_operations
        return Reply(
            DescribeClusterResponse(
                cluster_id=self._cluster_id,
                controller_id=image.controller_id,
                brokers=[
                    DescribeClusterBroker(
                        broker_id=broker.broker_id,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=broker.rack,
                    )
                    for broker in image.brokers.values()
                    if (endpoint := broker.endpoints.get(request.listener_name)) is not None
                ],
                cluster_authorized_operations=(
                    OPERATION_BITS[ResourceType.CLUSTER] if asks else OPERATIONS_NOT_ASKED_FOR
                ),
            )
        )


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == ENDPOINT_TYPE_CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a broker: it has no controller endpoints",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"endpoint type {endpoint_type} does not exist",
    )
