"""Declares AllocateProducerIds, with which a broker reserves a block of producer ids (decision)."""

from kafkawire.schema import INT16, INT32, INT64, field, message


@message(versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest:
    """Request of a broker for the next block of producer ids."""

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)


@message(versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse:
    """The reserved block of producer ids."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id_start: int = field(INT64)
    producer_id_len: int = field(INT32)
