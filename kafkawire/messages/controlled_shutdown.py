"""Declares ControlledShutdown, with which a broker gives up its leaderships (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 3), flexible=3)
class ControlledShutdownRequest:
    """Request to move the sender's leaderships; the only one without a client id in version 0."""

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
