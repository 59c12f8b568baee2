"""DescribeClientQuotas and AlterClientQuotas; any broker may write quotas (edge)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog

from broker.handlers.handler_table import Apis, Parts
from broker.live_configs.config_nodes import ConfigNodes
from broker.live_configs.quota_configs import QuotaConfigs
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from broker.quotas.entity import QuotaEntity, altered
from broker.quotas.quota_filter import Component, QuotaFilter
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.client_quotas import (
    AlterationResult,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedEntry,
    EntityData,
    ValueData,
)

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda parts: _handler(parts).handle_describe,
    ApiKey.ALTER_CLIENT_QUOTAS: lambda parts: _handler(parts).handle_alter,
}
# Work of an entry, in items of `in_turns`: an entry that is refused takes some 20 µs.
WEIGHT: Final = 5


class ClientQuotasHandler:
    """Shows and changes quotas; one bad entity does not fail the others."""

    def __init__(self, tasks: RequestTasks, nodes: ConfigNodes, quotas: QuotaConfigs) -> None:
        self._tasks = tasks
        self._nodes = nodes
        self._quotas = quotas

    def handle_describe(self, request: Request, message: DescribeClientQuotasRequest) -> Reply:
        """Respond with the quotas of every matching entity."""
        del request
        return self._tasks.run(partial(self._describe, message))

    def handle_alter(self, request: Request, message: AlterClientQuotasRequest) -> Reply:
        """Respond with a result for every entity of the request."""
        del request
        return self._tasks.run(partial(self._alter_all, message))

    async def _describe(self, message: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        try:
            components = [
                Component(each.entity_type, each.match_type, each.match)
                for each in message.components
            ]
            wanted = QuotaFilter(components, is_strict=message.strict)
            found = await self._quotas.read_all()
        except ApiError as error:
            return DescribeClientQuotasResponse(
                error_code=error.code, error_message=error.message or error.code.text, entries=None
            )
        return DescribeClientQuotasResponse(
            error_message=None,
            entries=[
                _described(entity, quotas)
                for entity, quotas in sorted(found.items())
                if wanted.accepts(entity)
            ],
        )

    async def _alter_all(self, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        results = []
        async for entry in in_turns(message.entries, WEIGHT):
            code, text = ErrorCode.NONE, None
            try:
                await self._alter(entry, validate_only=message.validate_only)
            except ApiError as error:
                code, text = error.code, error.message or error.code.text
            results.append(
                AlterationResult(error_code=code, error_message=text, entity=entry.entity)
            )
        return AlterClientQuotasResponse(entries=results)

    async def _alter(self, entry: AlteredEntry, *, validate_only: bool) -> None:
        entity = QuotaEntity.of((each.entity_type, each.entity_name) for each in entry.entity)
        ops = [(op.key, None if op.remove else op.value) for op in entry.ops]

        def change(configs: Mapping[str, str]) -> dict[str, str]:
            return altered(configs, entity, ops)

        if validate_only:
            change(await self._nodes.read(entity.path))
        else:
            await self._nodes.change(entity.path, change)


def _described(entity: QuotaEntity, quotas: Mapping[str, float]) -> DescribedEntry:
    return DescribedEntry(
        entity=[
            EntityData(entity_type=kind, entity_name=name or None) for kind, name in entity.names
        ],
        values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
    )


def _handler(parts: Parts) -> ClientQuotasHandler:
    return ClientQuotasHandler(parts.tasks, parts.configs.nodes, parts.configs.quota_configs)
