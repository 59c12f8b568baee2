"""Declares ApiVersions, which lists the APIs and versions that a broker serves (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, since, struct


@message(versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    """Request for the APIs and versions that the broker serves."""

    client_software_name: str = field(STRING, since=3, ignorable=True)
    client_software_version: str = field(STRING, since=3, ignorable=True)


SOFTWARE_SINCE: Final = since(ApiVersionsRequest, "client_software_name")


@struct
class ApiVersion:
    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct
class SupportedFeatureKey:
    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct
class FinalizedFeatureKey:
    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


@message(versions=(0, 4), flexible=3)
class ApiVersionsResponse:
    """The served range of versions of every API.

    This is the only response whose header never has tagged fields. A client may send a version that
    the broker does not know, and must be able to read the response, which then has version 0.
    """

    error_code: int = field(INT16)
    api_keys: Sequence[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = field(
        array(SupportedFeatureKey), since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = field(INT64, since=3, default=-1, tag=1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = field(
        array(FinalizedFeatureKey), since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(BOOL, since=3, tag=3, ignorable=True)
