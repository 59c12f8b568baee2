"""EndTxn: commit or abort a transaction (edge)."""

from __future__ import annotations

from typing import Final

from broker.handlers.add_to_txn import known_code
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_effects import ProducerIdentity
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.transactions import EndTxnRequest, EndTxnResponse

FENCED_SINCE: Final = 2
"""First version whose clients know PRODUCER_FENCED."""

APIS: Final[Apis] = {ApiKey.END_TXN: lambda parts: EndTxnHandler(parts.transactions).handle}


class EndTxnHandler:
    """Ends transactions."""

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def handle(self, request: Request, message: EndTxnRequest) -> Reply:
        """Respond once the decision is durable; the markers follow."""
        reply = Reply()
        version = request.header.api_version

        def respond(error: ErrorCode) -> None:
            reply.complete(EndTxnResponse(error_code=known_code(error, version, FENCED_SINCE)))

        self._transactions.end(
            message.transactional_id,
            ProducerIdentity(message.producer_id, message.producer_epoch),
            respond,
            is_commit=message.committed,
        )
        return reply
