"""Guards of DescribeConfigs, AlterConfigs and IncrementalAlterConfigs (edge)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from broker.handlers.guards.guard import Guard, Maker
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from kafkawire.acl import Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_configs import AlterConfigsResourceResponse, AlterConfigsResponse
from kafkawire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from kafkawire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from kafkawire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

TOPIC: Final = 2
OF_CLUSTER: Final = frozenset({4, 8, 16})
"""Kafka's numbers for brokers, their loggers, and client metrics."""


class Resource(Protocol):
    """A resource with configs, of any of these APIs."""

    resource_type: int
    resource_name: str


def of_resources(
    operation: Operation, response: Callable[..., Any], results: str, result: Callable[..., object]
) -> Maker:
    """Return a guard that requires an operation on each topic, or on the cluster."""

    def make(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
        def guarded(request: Request, message: Any) -> Reply:
            checked = [
                (_refusal(guard, request, operation, each), each) for each in message.resources
            ]
            refused = [
                result(
                    error_code=code,
                    error_message=code.text,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for code, each in checked
                if code is not None
            ]
            left = [each for code, each in checked if code is None]
            if refused and not left:
                return Reply(response(**{results: refused}))

            def add(answer: Any) -> object:
                setattr(answer, results, [*getattr(answer, results), *refused])
                return answer

            return after(handle(request, replace(message, resources=left)), add)

        return guarded

    return make


def _refusal(
    guard: Guard, request: Request, operation: Operation, resource: Resource
) -> ErrorCode | None:
    """Return the error of a denied resource; the handler refuses resources of unknown types."""
    if resource.resource_type == TOPIC:
        if not guard.allows(request, operation, ResourceType.TOPIC, resource.resource_name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource.resource_type in OF_CLUSTER and not guard.allows_on_cluster(request, operation):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.DESCRIBE_CONFIGS: of_resources(
        Operation.DESCRIBE_CONFIGS, DescribeConfigsResponse, "results", DescribeConfigsResult
    ),
    ApiKey.ALTER_CONFIGS: of_resources(
        Operation.ALTER_CONFIGS, AlterConfigsResponse, "responses", AlterConfigsResourceResponse
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: of_resources(
        Operation.ALTER_CONFIGS,
        IncrementalAlterConfigsResponse,
        "responses",
        IncrementalResourceResponse,
    ),
}
