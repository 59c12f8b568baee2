"""DescribeConfigs of topics, of the broker itself, and of all brokers (edge)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from broker.cluster.metadata_cache import MetadataCache
from broker.config.config_entry import (
    ConfigEntry,
    ConfigSource,
    ResourceType,
    broker_entries,
    logger_entries,
    shared_entries,
    topic_entries,
)
from broker.config.config_target import check_broker, check_logger_broker, unknown_resource
from broker.config.dynamic_config import DynamicConfig
from broker.handlers.handler_table import Apis
from broker.handlers.wire_text import wire_text
from broker.live_configs.topic_overrides import TopicConfigs
from broker.log_levels import LogLevels
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError
from kafkawire.ids import BrokerId
from kafkawire.messages.describe_configs import (
    CONFIG_SOURCE_SINCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_CONFIGS: lambda parts: (
        DescribeConfigsHandler(
            parts.tasks,
            parts.metadata,
            parts.configs.topics,
            parts.configs.broker,
            parts.identity.broker_id,
            parts.levels,
        ).handle
    ),
}


ENTRIES_PER_RESOURCE: Final = 250
"""Number of entries of a broker, roughly; other resources have fewer."""


class DescribeConfigsHandler:
    """Describes values and their sources; one bad resource does not fail the others."""

    def __init__(
        self,
        tasks: RequestTasks,
        metadata: MetadataCache,
        overrides: TopicConfigs,
        config: DynamicConfig,
        broker_id: BrokerId,
        levels: LogLevels,
    ) -> None:
        self._levels = levels
        self._tasks = tasks
        self._metadata = metadata
        self._overrides = overrides
        self._config = config
        self._broker_id = broker_id

    def handle(self, request: Request, message: DescribeConfigsRequest) -> Reply:
        """Respond with a result for every resource of the request, once if it is repeated."""
        return self._tasks.run(partial(self._describe_all, message, request.header.api_version))

    async def _describe_all(
        self, message: DescribeConfigsRequest, version: int
    ) -> DescribeConfigsResponse:
        distinct = {
            (each.resource_type, each.resource_name, frozenset(each.configuration_keys or ())): each
            for each in message.resources
        }
        return DescribeConfigsResponse(
            results=[
                await self._describe(resource, message, version)
                async for resource in in_turns(distinct.values(), weight=ENTRIES_PER_RESOURCE)
            ]
        )

    async def _describe(
        self, resource: DescribeConfigsResource, message: DescribeConfigsRequest, version: int
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            entries = await self._entries(resource.resource_type, resource.resource_name)
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message or error.code.text
            return result
        keys = frozenset(resource.configuration_keys or ())
        result.configs = [
            _answer(entry, message, version) for entry in entries if not keys or entry.name in keys
        ]
        return result

    async def _entries(self, resource_type: int, name: str) -> Iterable[ConfigEntry]:
        if resource_type == ResourceType.TOPIC:
            self._metadata.image.check_topic(name)
            return topic_entries(await self._overrides.read(name), self._config)
        if resource_type == ResourceType.BROKER:
            return self._broker_entries(name)
        if resource_type == ResourceType.BROKER_LOGGER:
            check_logger_broker(name, self._broker_id)
            return logger_entries(self._levels.described())
        raise unknown_resource(resource_type)

    def _broker_entries(self, name: str) -> Iterable[ConfigEntry]:
        check_broker(name, self._broker_id)
        return broker_entries(self._config) if name else shared_entries(self._config)


def _answer(
    entry: ConfigEntry, message: DescribeConfigsRequest, version: int
) -> DescribeConfigsResourceResult:
    has_source = version >= CONFIG_SOURCE_SINCE
    return DescribeConfigsResourceResult(
        name=wire_text(entry.name),
        value=_value(entry.value),
        read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        is_default=not has_source and entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        config_type=entry.type,
        documentation=entry.documentation if message.include_documentation else None,
        synonyms=_synonyms(entry) if message.include_synonyms else (),
    )


def _synonyms(entry: ConfigEntry) -> Sequence[DescribeConfigsSynonym]:
    return [
        DescribeConfigsSynonym(
            name=wire_text(synonym.name), value=_value(synonym.value), source=synonym.source
        )
        for synonym in entry.synonyms
    ]


def _value(value: str | None) -> str | None:
    return None if value is None else wire_text(value)
