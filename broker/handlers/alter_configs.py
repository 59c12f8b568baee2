"""AlterConfigs and IncrementalAlterConfigs of topics and brokers (edge).

Any broker may write the configs of topics and the shared ones of all brokers; only the broker
itself may write its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.config.config_change import ConfigChange, changed, changed_keys, replaced
from broker.config.config_entry import ResourceType
from broker.config.config_target import ConfigTarget, target_of
from broker.config.dynamic_config import DynamicConfig
from broker.handlers.handler_table import Apis, Parts
from broker.live_configs.config_nodes import ConfigNodes
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId
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

Configs = Mapping[str, str]
Change = Callable[[Configs, ConfigTarget], Configs]

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.ALTER_CONFIGS: lambda parts: _handler(parts).handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda parts: _handler(parts).handle_incremental,
}


class AlterConfigsHandler:
    """Changes configs; one bad resource does not fail the others."""

    def __init__(
        self,
        tasks: RequestTasks,
        metadata: MetadataCache,
        nodes: ConfigNodes,
        config: DynamicConfig,
        broker_id: BrokerId,
    ) -> None:
        self._tasks = tasks
        self._metadata = metadata
        self._nodes = nodes
        self._config = config
        self._broker_id = broker_id

    def handle(self, request: Request, message: AlterConfigsRequest) -> Reply:
        """Serve AlterConfigs: keys that are not named return to their defaults."""
        del request
        return self._tasks.run(partial(self._replace_all, message))

    def handle_incremental(
        self, request: Request, message: IncrementalAlterConfigsRequest
    ) -> Reply:
        """Serve IncrementalAlterConfigs: keys that are not named stay as they are."""
        del request
        return self._tasks.run(partial(self._change_all, message))

    async def _replace_all(self, message: AlterConfigsRequest) -> AlterConfigsResponse:
        wanted = [
            (
                resource.resource_type,
                resource.resource_name,
                _replacement([(config.name, config.value) for config in resource.configs]),
            )
            for resource in message.resources
        ]
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=code, error_message=text, resource_type=kind, resource_name=name
                )
                for kind, name, code, text in await self._alter_all(wanted, message.validate_only)
            ]
        )

    async def _change_all(
        self, message: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        wanted = [
            (
                resource.resource_type,
                resource.resource_name,
                _increment(
                    [
                        ConfigChange(config.name, config.config_operation, config.value)
                        for config in resource.configs
                    ]
                ),
            )
            for resource in message.resources
        ]
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalResponse(
                    error_code=code, error_message=text, resource_type=kind, resource_name=name
                )
                for kind, name, code, text in await self._alter_all(wanted, message.validate_only)
            ]
        )

    async def _alter_all(
        self, wanted: Sequence[tuple[int, str, Change]], validate_only: bool
    ) -> list[tuple[int, str, ErrorCode, str | None]]:
        """Return the error code and message of each resource."""
        times = Counter((kind, name) for kind, name, _ in wanted)
        results = []
        async for kind, name, change in in_turns(wanted):
            code, text = ErrorCode.NONE, None
            try:
                if times[kind, name] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is named twice")
                await self._alter(kind, name, change, validate_only)
            except ApiError as error:
                code, text = error.code, error.message or error.code.text
            results.append((kind, name, code, text))
        return results

    async def _alter(self, kind: int, name: str, change: Change, validate_only: bool) -> None:
        target = target_of(kind, name, self._config, self._broker_id)
        if target.kind is ResourceType.TOPIC:
            self._metadata.image.check_topic(name)

        altered: list[str] = []

        def checked(configs: Configs) -> Configs:
            result = change(configs, target)
            target.check(result)
            altered[:] = changed_keys(configs, result)
            return result

        if validate_only:
            checked(await self._nodes.read(target.entity_path))
            return
        await self._nodes.change(target.entity_path, checked)
        # Never log the values: they may be secret, or long.
        log.info("config.altered", entity=target.entity_path, keys=altered)


def _replacement(values: Sequence[tuple[str, str | None]]) -> Change:
    return lambda _current, _target: replaced(values)


def _increment(changes: Sequence[ConfigChange]) -> Change:
    return lambda current, target: changed(current, changes, target.defaults, target.keys)


def _handler(parts: Parts) -> AlterConfigsHandler:
    return AlterConfigsHandler(
        parts.tasks,
        parts.metadata,
        parts.configs.nodes,
        parts.configs.broker,
        parts.identity.broker_id,
    )
