"""Guards of the transaction coordinator's APIs (edge)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.handlers.add_to_txn import refused_as_a_whole, refused_in_part
from broker.handlers.guards.guard import Guard, Maker, Sieve
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from kafkawire.acl import Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.transaction_admin import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.transactions import (
    TRANSACTIONS_SINCE,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    EndTxnResponse,
)

ID: Final = ResourceType.TRANSACTIONAL_ID
DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def add_partitions(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require WRITE on the transactional id and on each topic; of brokers, CLUSTER_ACTION."""

    def guarded(request: Request, message: AddPartitionsToTxnRequest) -> Reply:
        if request.header.api_version >= TRANSACTIONS_SINCE:
            if guard.allows_on_cluster(request, Operation.CLUSTER_ACTION):
                return handle(request, message)
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return Reply(refused_as_a_whole(request, message, code))
        if not guard.allows(request, Operation.WRITE, ID, message.v3_and_below_transactional_id):
            return Reply(refused_as_a_whole(request, message, DENIED))
        names = [topic.name for topic in message.v3_and_below_topics]
        if guard.allows_all(request, Operation.WRITE, ResourceType.TOPIC, names):
            return handle(request, message)
        allowed = guard.sift(request, Operation.WRITE, ResourceType.TOPIC, names)
        denied = set(names) - allowed
        if not denied:
            return handle(request, message)
        return Reply(refused_in_part(message, parts.metadata.image, denied))

    return guarded


def add_offsets(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require WRITE on the transactional id, and READ on the group."""

    def guarded(request: Request, message: AddOffsetsToTxnRequest) -> Reply:
        if not guard.allows(request, Operation.WRITE, ID, message.transactional_id):
            return Reply(AddOffsetsToTxnResponse(error_code=DENIED))
        if not guard.allows(request, Operation.READ, ResourceType.GROUP, message.group_id):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return Reply(AddOffsetsToTxnResponse(error_code=code))
        return handle(request, message)

    return guarded


def of_producer(refuse: Callable[[], object]) -> Maker:
    """Return the guard of a producer's API: WRITE on its transactional id."""

    def make(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
        def guarded(request: Request, message: Any) -> Reply:
            if guard.allows(request, Operation.WRITE, ID, message.transactional_id):
                return handle(request, message)
            return Reply(refuse())

        return guarded

    return make


DESCRIBE: Final[Sieve[str]] = Sieve(
    operation=Operation.DESCRIBE,
    kind=ID,
    items="transactional_ids",
    name=str,
    response=DescribeTransactionsResponse,
    results="transaction_states",
    refuse=lambda name: DescribedTransaction(transactional_id=name, error_code=DENIED),
)


def describe_transactions(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DESCRIBE on each transactional id; leave out topics without DESCRIBE."""
    describe = DESCRIBE.make(parts, guard, handle)

    def guarded(request: Request, message: DescribeTransactionsRequest) -> Reply:
        def allowed(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
            for each in response.transaction_states:
                names = [topic.topic for topic in each.topics]
                kind, operation = ResourceType.TOPIC, Operation.DESCRIBE
                seen = guard.sift(request, operation, kind, names, is_logged=False)
                each.topics = [topic for topic in each.topics if topic.topic in seen]
            return response

        return after(describe(request, message), allowed)

    return guarded


def list_transactions(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Leave out transactional ids that the sender may not DESCRIBE."""

    def guarded(request: Request, message: ListTransactionsRequest) -> Reply:
        def allowed(response: ListTransactionsResponse) -> ListTransactionsResponse:
            response.transaction_states = [
                each
                for each in response.transaction_states
                if guard.allows(
                    request, Operation.DESCRIBE, ID, each.transactional_id, is_logged=False
                )
            ]
            return response

        return after(handle(request, message), allowed)

    return guarded


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets,
    ApiKey.END_TXN: of_producer(lambda: EndTxnResponse(error_code=DENIED)),
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}
