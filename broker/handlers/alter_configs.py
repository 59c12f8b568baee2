"""AlterConfigs and IncrementalAlterConfigs of topics and brokers (edge).

Any broker may write the configs of topics and the shared ones of all brokers; only the broker
itself may write its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.config.config_change import (
    ConfigChange,
    changed,
    changed_keys,
    check_changes,
    replacement,
)
from broker.config.config_entry import ResourceType
from broker.config.config_target import ConfigTarget, check_logger_broker, target_of
from broker.config.dynamic_config import DynamicConfig
from broker.handlers.handler_table import Apis, Parts
from broker.live_configs.config_nodes import ConfigNodes
from broker.log_levels import LogLevels
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


class Wanted(NamedTuple):
    """The changes of one resource, or with `is_replacement` of its configs as if it had none."""

    kind: int
    name: str
    changes: Sequence[ConfigChange]
    is_replacement: bool

    def result(self, configs: Configs, target: ConfigTarget) -> Configs:
        """Return the configs after the changes; raise ApiError if they do not fit."""
        current = {} if self.is_replacement else configs
        return changed(current, self.changes, target.defaults, target.keys)


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
        levels: LogLevels,
    ) -> None:
        self._levels = levels
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
            Wanted(
                resource.resource_type,
                resource.resource_name,
                replacement((config.name, config.value) for config in resource.configs),
                is_replacement=True,
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
            Wanted(
                resource.resource_type,
                resource.resource_name,
                [
                    ConfigChange(config.name, config.config_operation, config.value)
                    for config in resource.configs
                ],
                is_replacement=False,
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
        self, wanted: Sequence[Wanted], validate_only: bool
    ) -> list[tuple[int, str, ErrorCode, str | None]]:
        """Return the error code and message of each resource."""
        times = Counter((each.kind, each.name) for each in wanted)
        results = []
        async for each in in_turns(wanted):
            kind, name = each.kind, each.name
            code, text = ErrorCode.NONE, None
            try:
                if times[kind, name] > 1:
                    text = "each resource must appear at most once"
                    raise ApiError(ErrorCode.INVALID_REQUEST, text)
                check_changes(each.changes)
                if kind == ResourceType.BROKER_LOGGER:
                    self._alter_loggers(each, validate_only)
                else:
                    await self._alter(each, validate_only)
            except ApiError as error:
                code, text = error.code, error.message or error.code.text
            results.append((kind, name, code, text))
        return results

    def _alter_loggers(self, wanted: Wanted, validate_only: bool) -> None:
        check_logger_broker(wanted.name, self._broker_id)
        if wanted.is_replacement:
            text = "levels of loggers need IncrementalAlterConfigs"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        self._levels.change(wanted.changes, validate_only=validate_only)
        if not validate_only:
            changed = {each.name: each.value for each in wanted.changes}
            log.info("log_levels.changed", levels=changed)

    async def _alter(self, wanted: Wanted, validate_only: bool) -> None:
        target = target_of(wanted.kind, wanted.name, self._config, self._broker_id)
        if target.kind is ResourceType.TOPIC:
            self._check_topic(wanted.name)

        altered: list[str] = []

        def checked(configs: Configs) -> Configs:
            result = wanted.result(configs, target)
            target.check(result)
            altered[:] = changed_keys(configs, result)
            return result

        if validate_only:
            checked(await self._nodes.read(target.entity_path))
            return
        await self._nodes.change(target.entity_path, checked)
        # Never log the values: they may be secret, or long.
        log.info("config.altered", entity=target.entity_path, keys=altered)

    def _check_topic(self, name: str) -> None:
        if not name:
            text = "topics have no defaults to alter: name a topic"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if name not in self._metadata.image.topics:
            text = f"topic {name} does not exist"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def _handler(parts: Parts) -> AlterConfigsHandler:
    return AlterConfigsHandler(
        parts.tasks,
        parts.metadata,
        parts.configs.nodes,
        parts.configs.broker,
        parts.identity.broker_id,
        parts.levels,
    )
