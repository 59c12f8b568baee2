"""ApiVersions: the APIs served by this broker and the features of its cluster (decision)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from broker.handlers.handler_table import MODULES, Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.router import Served, advertised
from clusterstate.znodes.cluster_node import Features
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.api_versions import (
    SOFTWARE_SINCE,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)

# Source: KIP-511, "Validation".
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

APIS: Final[Apis] = {
    ApiKey.API_VERSIONS: lambda parts: (
        ApiVersionsHandler(advertised(MODULES), lambda: parts.features.current).handle
    ),
}


class ApiVersionsHandler:
    """Lists the served APIs and their versions."""

    def __init__(
        self,
        served: Served,
        features: Callable[[], Features | None] = lambda: None,
    ) -> None:
        """Call `features` at each request, because they may change later."""
        self._served = served
        self._features = features

    def handle(self, request: Request, message: ApiVersionsRequest | None) -> Reply:
        """Respond with the APIs, or with INVALID_REQUEST if the client's name is malformed.

        `message` is None if the request has an unknown version.
        """
        if message is None:
            return Reply(_describe(self._served, ErrorCode.UNSUPPORTED_VERSION))
        if request.header.api_version >= SOFTWARE_SINCE and not (
            _SOFTWARE.fullmatch(message.client_software_name)
            and _SOFTWARE.fullmatch(message.client_software_version)
        ):
            return Reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        response = _describe(self._served, ErrorCode.NONE)
        features = self._features()
        if features is not None:
            response.finalized_features_epoch = features.epoch
            response.finalized_features = [
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in features.levels.items()
            ]
        return Reply(response)


def _describe(served: Served, error: ErrorCode) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(served.items())
        ],
    )
