"""Guards of the APIs of delegation tokens (edge).

Clients may create tokens of their own, and renew or expire tokens that name them. A token of
another owner needs CreateTokens on that user; the list of tokens of others needs Describe on the
token, or DescribeTokens on its owner.
"""

from __future__ import annotations

from typing import Any, Final

from broker.handlers.delegation_tokens import may_request, owner_of, refused, sender_of
from broker.handlers.guards.guard import Guard, Maker
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from broker.security.principal import Principal
from kafkawire.acl import Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
)


def create(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Return the guard of CreateDelegationToken."""

    def guarded(request: Request, message: CreateDelegationTokenRequest) -> Reply:
        owner, sender = owner_of(request, message), sender_of(request)
        is_free = owner == sender or not may_request(request)
        if is_free or guard.allows(request, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            return handle(request, message)
        return Reply(refused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, sender))

    return guarded


def describe(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Return the guard of DescribeDelegationToken."""

    def guarded(request: Request, message: DescribeDelegationTokenRequest) -> Reply:
        def sift(response: Any) -> object:
            response.tokens = [each for each in response.tokens if _may_see(guard, request, each)]
            return response

        return after(handle(request, message), sift)

    return guarded


def open_to_owners(_parts: Parts, _guard: Guard, handle: Handler) -> Handler:
    """Return the handler of an API that itself compares the sender with the token's users."""
    return handle


def _may_see(guard: Guard, request: Request, token: DescribedDelegationToken) -> bool:
    owner = Principal(token.principal_type, token.principal_name)
    named = [
        owner,
        Principal(token.token_requester_principal_type, token.token_requester_principal_name),
        *(Principal(each.principal_type, each.principal_name) for each in token.renewers),
    ]
    if sender_of(request) in named:
        return True
    rights = (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, str(owner)),
    )
    # A filter of a list denies nothing that the client has named.
    return any(guard.allows(request, *each, is_logged=False) for each in rights)


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: create,
    ApiKey.RENEW_DELEGATION_TOKEN: open_to_owners,
    ApiKey.EXPIRE_DELEGATION_TOKEN: open_to_owners,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe,
}
