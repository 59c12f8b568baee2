"""ListTransactions: always empty, as this broker does not coordinate transactions yet (edge)."""

from __future__ import annotations

from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from kafkawire.apis import ApiKey
from kafkawire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)

APIS: Final[Apis] = {
    ApiKey.LIST_TRANSACTIONS: lambda _parts: list_transactions,
}


def list_transactions(request: Request, message: ListTransactionsRequest) -> Reply:
    """Respond with an empty list, and with the unknown states among the filters."""
    del request
    unknown = [each for each in message.state_filters if each not in STATES]
    return Reply(ListTransactionsResponse(unknown_state_filters=unknown))
