"""Declares DescribeCluster (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR


@message(versions=(0, 1), flexible=0)
class DescribeClusterRequest:
    """Request for the members of the cluster."""

    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)


@struct
class DescribeClusterBroker:
    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=0, default=None)


@message(versions=(0, 1), flexible=0)
class DescribeClusterResponse:
    """The brokers and the controller."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: Sequence[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=OPERATIONS_NOT_ASKED_FOR)
