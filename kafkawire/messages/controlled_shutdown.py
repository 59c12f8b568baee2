"""Decision: declares ControlledShutdown, by which a broker asks to be relieved before it stops."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 3), flexible=3)
class ControlledShutdownRequest:
    """Move my leaderships elsewhere. The one request whose version 0 has no client id."""

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, since=2, default=-1, ignorable=True)


@struct
class RemainingPartition:
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


@message(versions=(0, 3), flexible=3)
class ControlledShutdownResponse:
    """The partitions that this broker still leads."""

    error_code: int = field(INT16)
    remaining_partitions: Sequence[RemainingPartition] = field(array(RemainingPartition))
