"""Declares ListTransactions and DescribeTransactions (KIP-664) (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, since, struct


@message(versions=(0, 1), flexible=0)
class ListTransactionsRequest:
    """Request for the transactions that the broker coordinates; empty filters match all."""

    state_filters: Sequence[str] = field(array(STRING))
    producer_id_filters: Sequence[int] = field(array(INT64))
    duration_filter: int = field(INT64, since=1, default=-1)


DURATION_SINCE: Final = since(ListTransactionsRequest, "duration_filter")


@struct
class ListedTransaction:
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


@message(versions=(0, 1), flexible=0)
class ListTransactionsResponse:
    """The matching transactions, and the names in the filter that are not states."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: Sequence[str] = field(array(STRING))
    transaction_states: Sequence[ListedTransaction] = field(array(ListedTransaction))


@message(versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    """Request for the details of transactional ids."""

    transactional_ids: Sequence[str] = field(array(STRING))


@struct
class DescribedTransactionTopic:
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@struct
class DescribedTransaction:
    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: Sequence[DescribedTransactionTopic] = field(array(DescribedTransactionTopic))


@message(versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    """The state of each transactional id; its partitions without a marker while it ends."""

    throttle_time_ms: int = field(INT32)
    transaction_states: Sequence[DescribedTransaction] = field(array(DescribedTransaction))
