"""AlterConfigs and IncrementalAlterConfigs of topics (edge): any broker may write them.

The keys of a broker cannot be changed while it runs, and it says so; to unset one that was not set
so is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topic_source import TopicOverrides
from broker.config import BrokerConfig
from broker.config_change import ConfigChange, changed, check_configs, replaced
from broker.config_entry import ResourceType
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from kafkawire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from storage.config import TOPIC_CONFIG_KEYS, topic_defaults

Configs = Mapping[str, str]

log = structlog.get_logger(__name__)


class AlterConfigsHandler:
    """Changes configs; one bad resource does not fail the others."""

    def __init__(
        self,
        tasks: RequestTasks,
        metadata: MetadataCache,
        overrides: TopicOverrides,
        config: BrokerConfig,
    ) -> None:
        self._tasks = tasks
        self._metadata = metadata
        self._overrides = overrides
        self._log_defaults = config.topic_defaults
        built_in = {key.name: key.default for key in TOPIC_CONFIG_KEYS.values()}
        self._defaults = built_in | topic_defaults(config.originals)

    def handle(self, request: Request, message: AlterConfigsRequest) -> Reply:
        """Answer AlterConfigs: what is not named falls back to its default."""
        del request
        return self._tasks.run(partial(self._replace_all, message))

    def handle_incremental(
        self, request: Request, message: IncrementalAlterConfigsRequest
    ) -> Reply:
        """Answer IncrementalAlterConfigs: what is not named stays."""
        del request
        return self._tasks.run(partial(self._change_all, message))

    async def _replace_all(self, message: AlterConfigsRequest) -> AlterConfigsResponse:
        responses = []
        for resource in message.resources:
            values = [(config.name, config.value) for config in resource.configs]
            code, text = await self._alter(
                resource.resource_type,
                resource.resource_name,
                lambda _current, values=values: replaced(values),  # type: ignore[misc]
                validate_only=message.validate_only,
            )
            responses.append(
                AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return AlterConfigsResponse(responses=responses)

    async def _change_all(
        self, message: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        responses = []
        for resource in message.resources:
            changes = [
                ConfigChange(config.name, config.config_operation, config.value)
                for config in resource.configs
            ]
            code, text = await self._alter(
                resource.resource_type,
                resource.resource_name,
                partial(changed, changes=changes, defaults=self._defaults),
                validate_only=message.validate_only,
            )
            responses.append(
                IncrementalResponse(
                    error_code=code,
                    error_message=text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(responses=responses)

    async def _alter(
        self,
        resource_type: int,
        name: str,
        change: Callable[[Configs], Configs],
        *,
        validate_only: bool,
    ) -> tuple[ErrorCode, str | None]:
        """Return the code and the text for one resource."""

        def checked(overrides: Configs) -> Configs:
            changed_ones = change(overrides)
            check_configs(changed_ones, self._log_defaults)
            return changed_ones

        try:
            if resource_type == ResourceType.BROKER and not change({}):
                # Kafka's tools take limits back that nobody has set.
                return ErrorCode.NONE, None
            self._check(resource_type, name)
            if validate_only:
                checked(await self._overrides.read(name))
            else:
                configs = await self._overrides.change(name, checked)
                log.info("topic.config_changed", topic=name, configs=dict(configs))
        except ApiError as error:
            return error.code, error.message or error.code.text
        return ErrorCode.NONE, None

    def _check(self, resource_type: int, name: str) -> None:
        if resource_type == ResourceType.BROKER:
            text = "keys of a broker cannot be changed while it runs: set them in server.properties"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if resource_type != ResourceType.TOPIC:
            text = f"resource type {resource_type} cannot be altered; topics (2) can"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        self._metadata.image.check_topic(name)
