"""Describes and alters configs (edge).

Only the broker itself returns its own configs; any broker returns topic configs.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kafkawire.ids import BrokerId
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.client.admin.admin_request import change, raise_refused, read
from ottla.client.admin_model import ConfigEntry, ResourceType
from ottla.client.argument import require_mapping, require_text
from ottla.client.errors import ConfigurationError
from ottla.client.network.cluster import Cluster

R = TypeVar("R")

SET: Final = 0
DELETE: Final = 1
DEFAULT_SOURCE: Final = 5
_BROKER_NAME: Final = re.compile("[0-9]{1,10}")


async def describe_configs(
    cluster: Cluster,
    kind: ResourceType,
    name: str,
    keys: Sequence[str] | None,
    timeout_s: float,
) -> dict[str, ConfigEntry]:
    """Return the configs of a topic or broker by key, all of them unless `keys` is given.

    Raises:
        ConfigurationError: the name of a broker is not a number.
        BrokerError: the broker refuses, or there is no such topic.
    """
    kind = _kind(kind, name)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ],
        include_documentation=True,
    )

    async def attempt() -> dict[str, ConfigEntry]:
        response = await _ask(
            cluster, kind, name, request, DescribeConfigsResponse, may_repeat=True
        )
        raise_refused(
            [_subject(kind, name)],
            (
                (_subject(kind, it.resource_name), it.error_code, it.error_message)
                for it in response.results
            ),
        )
        return {each.name: _entry(each) for result in response.results for each in result.configs}

    return await read(cluster, attempt, timeout_s)


async def alter_configs(
    cluster: Cluster,
    kind: ResourceType,
    name: str,
    changes: Mapping[str, str | None],
    timeout_s: float,
) -> None:
    """Set configs of a topic or broker by key; None resets a key to its default.

    Raises:
        ConfigurationError: the name of a broker is not a number.
        BrokerError: a key or value is refused; then nothing was changed.
        ConnectionLostError: no response arrived; check with `describe_configs`.
    """
    kind = _kind(kind, name)
    require_mapping("changes", changes)
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(
                        name=key, config_operation=DELETE if value is None else SET, value=value
                    )
                    for key, value in changes.items()
                ],
            )
        ]
    )

    async def attempt() -> None:
        response = await _ask(cluster, kind, name, request, IncrementalAlterConfigsResponse)
        raise_refused(
            [_subject(kind, name)],
            (
                (_subject(kind, it.resource_name), it.error_code, it.error_message)
                for it in response.responses
            ),
        )

    await change(cluster, attempt, timeout_s)


def _subject(kind: ResourceType, name: str) -> str:
    return f"configs of {kind.name.lower()} {name}"


def _kind(kind: int, name: str) -> ResourceType:
    """Return the kind of a resource, once its name fits it."""
    try:
        known = ResourceType(kind)
    except ValueError:
        raise ConfigurationError(f"kind must be a ResourceType, got {kind!r}") from None
    require_text("a resource's name", name)
    if known is ResourceType.BROKER and name and not _BROKER_NAME.fullmatch(name):
        raise ConfigurationError(f"a broker is named by its id, got {name!r}")
    return known


async def _ask(
    cluster: Cluster,
    kind: ResourceType,
    name: str,
    request: object,
    response_type: type[R],
    *,
    may_repeat: bool = False,
) -> R:
    if kind is ResourceType.BROKER and name:
        return await cluster.request(BrokerId(int(name)), request, response_type)
    return await cluster.request_any(request, response_type, may_repeat=may_repeat)


def _entry(each: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=each.name,
        value=each.value,
        source=each.config_source,
        is_default=each.config_source == DEFAULT_SOURCE,
        is_read_only=each.read_only,
        is_sensitive=each.is_sensitive,
        documentation=each.documentation,
    )
