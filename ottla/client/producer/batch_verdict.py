"""Decides the fate of a batch after an error (decision).

Invariant: a batch is retried only within its delivery timeout and its limit of retries.
"""

import enum

from kafkawire.errors import ErrorCode
from ottla.client.client_config import ProducerConfig
from ottla.client.errors import BrokerError, OttlaError, ProtocolError
from ottla.client.producer.producer_batch import ProducerBatch


class Verdict(enum.Enum):
    """The next step for a batch after an error."""

    RETRY = enum.auto()
    RENUMBER = enum.auto()
    """Retry with new sequence numbers: the broker expects numbers that will never be sent."""
    WRITTEN = enum.auto()
    """The batch was written by an earlier attempt, at an unknown offset."""
    SPLIT = enum.auto()
    EXPIRE = enum.auto()
    FAIL = enum.auto()


def judge(
    error: OttlaError, batch: ProducerBatch, config: ProducerConfig, retry_at_s: float
) -> Verdict:
    """Return the next step for `batch` after `error`; a retry would be sent at `retry_at_s`."""
    if isinstance(error, BrokerError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
        return Verdict.SPLIT if len(batch.deliveries) > 1 else Verdict.FAIL
    is_renumbered = False
    if isinstance(error, BrokerError) and batch.identity is not None:
        if error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return Verdict.WRITTEN
        # The numbers of a transaction end with it: a gap means that it has to be aborted.
        may_renumber = config.transactional_id is None and not batch.may_be_written
        is_renumbered = error.code in _SEQUENCE_ERRORS and may_renumber
    # An invalid response says nothing about the records: treat it like a lost one.
    if not (error.retriable or is_renumbered or isinstance(error, ProtocolError)):
        return Verdict.FAIL
    if batch.attempt_count > config.retries:
        return Verdict.FAIL
    is_late = retry_at_s >= batch.created_at_s + config.delivery_timeout_ms / 1000
    if is_late:
        return Verdict.EXPIRE
    return Verdict.RENUMBER if is_renumbered else Verdict.RETRY


_SEQUENCE_ERRORS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
