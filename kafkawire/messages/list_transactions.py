"""Declares ListTransactions (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 1), flexible=0)
class ListTransactionsRequest:
    """Request for the transactions that the broker coordinates; empty filters match all."""

    state_filters: Sequence[str] = field(array(STRING))
    producer_id_filters: Sequence[int] = field(array(INT64))
    duration_filter: int = field(INT64, since=1, default=-1)


@struct
class TransactionState:
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


@message(versions=(0, 1), flexible=0)
class ListTransactionsResponse:
    """The matching transactions, and the names in the filter that are not states."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: Sequence[str] = field(array(STRING))
    transaction_states: Sequence[TransactionState] = field(array(TransactionState))
