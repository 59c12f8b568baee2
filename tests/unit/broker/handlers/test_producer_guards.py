"""The guards of transactions: `broker.handlers.guards.producer_guards`."""

from typing import Any, cast

from broker.handlers.guards.guard import Guard
from broker.handlers.guards.producer_guards import GUARDS
from broker.network.reply import Reply
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from kafkawire.acl import AclEntry, Operation, Permission, ResourcePattern, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.transaction_admin import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.unit.broker.requests import request

ID, TOPIC = ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC


def test_described_transactions_show_only_topics_that_may_be_described() -> None:
    authorizer = Authorizer([], allows_unlisted=False)
    for pattern in (ResourcePattern(ID, "mine"), ResourcePattern(TOPIC, "seen")):
        right = AclEntry(
            principal="User:*",
            host="*",
            operation=Operation.DESCRIBE,
            permission=Permission.ALLOW,
        )
        authorizer.set(pattern, [right])

    def describe(_request: object, message: DescribeTransactionsRequest) -> Reply:
        topics = [
            DescribedTransactionTopic(topic=name, partitions=[0]) for name in ("seen", "hidden")
        ]
        states = [
            DescribedTransaction(transactional_id=each, topics=topics)
            for each in message.transactional_ids
        ]
        return Reply(DescribeTransactionsResponse(transaction_states=states))

    guard = Guard(authorizer, Audit(lambda: 0.0, logs_allowed=False))
    guarded = GUARDS[ApiKey.DESCRIBE_TRANSACTIONS](cast(Any, None), guard, describe)
    message = DescribeTransactionsRequest(transactional_ids=["mine", "yours"])
    reply = guarded(request(ApiKey.DESCRIBE_TRANSACTIONS, 0, message), message)
    assert isinstance(reply.message, DescribeTransactionsResponse)
    assert {
        each.transactional_id: (each.error_code, [topic.topic for topic in each.topics])
        for each in reply.message.transaction_states
    } == {
        "mine": (ErrorCode.NONE, ["seen"]),
        "yours": (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, []),
    }
