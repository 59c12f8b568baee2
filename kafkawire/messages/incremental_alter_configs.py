"""Declares IncrementalAlterConfigs (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class AlterableConfig:
    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable=0)


@struct
class AlterConfigsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: Sequence[AlterableConfig] = field(array(AlterableConfig))


@message(versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    """Request to set, delete, append to or subtract from single configuration keys."""

    resources: Sequence[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


@message(versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    """The result for each resource."""

    throttle_time_ms: int = field(INT32)
    responses: Sequence[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
