"""Declares InitProducerId, which assigns a producer its id and epoch (decision)."""

from typing import Final

from kafkawire.schema import INT16, INT32, INT64, STRING, field, message, since


@message(versions=(0, 5), flexible=2)
class InitProducerIdRequest:
    """Request for a producer id, or for a new epoch of an existing one."""

    transactional_id: str | None = field(STRING, nullable=0)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)


IDENTITY_SINCE: Final = since(InitProducerIdRequest, "producer_id")
"""First version that can ask for the next epoch of an existing producer (KIP-360)."""


@message(versions=(0, 5), flexible=2)
class InitProducerIdResponse:
    """The producer id and epoch for all writes."""

    throttle_time_ms: int = field(INT32, ignorable=True)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
