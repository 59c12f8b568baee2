"""Declares DescribeConfigs (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, since, struct


@struct
class DescribeConfigsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: Sequence[str] | None = field(array(STRING), nullable=0)


@message(versions=(0, 4), flexible=4)
class DescribeConfigsRequest:
    """Request for the configuration of resources; `configuration_keys` None requests all keys."""

    resources: Sequence[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL, since=1)
    include_documentation: bool = field(BOOL, since=3)


@struct
class DescribeConfigsSynonym:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)
    source: int = field(INT8)


@struct
class DescribeConfigsResourceResult:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)
    read_only: bool = field(BOOL)
    is_default: bool = field(BOOL, until=0)
    config_source: int = field(INT8, since=1, default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL)
    synonyms: Sequence[DescribeConfigsSynonym] = field(
        array(DescribeConfigsSynonym), since=1, ignorable=True
    )
    config_type: int = field(INT8, since=3, ignorable=True)
    documentation: str | None = field(STRING, since=3, nullable=0, ignorable=True)


CONFIG_SOURCE_SINCE: Final = since(DescribeConfigsResourceResult, "config_source")


@struct
class DescribeConfigsResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: Sequence[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


@message(versions=(0, 4), flexible=4)
class DescribeConfigsResponse:
    """The values, their sources, and the values of their synonyms."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[DescribeConfigsResult] = field(array(DescribeConfigsResult))
