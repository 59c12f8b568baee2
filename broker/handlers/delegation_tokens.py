"""Create-, Renew-, Expire- and DescribeDelegationToken (edge), KIP-48.

A response holds the secret of a token, so the connection must be encrypted or authenticated; and a
token may not make or prolong tokens.

Source: kafka.server.KafkaApis of Kafka 3.9. Kafka serves them on each broker, as here.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from broker.handlers.handler_table import Apis, Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.security.delegation_tokens import new_token, renewed, shortened
from broker.security.principal import ANONYMOUS, USER, Principal, parse_principal
from broker.security.token_nodes import TokenNodes
from clusterstate.znodes.delegation_token import DelegationToken
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

APIS: Final[Apis] = {
    ApiKey.CREATE_DELEGATION_TOKEN: lambda parts: _handler(parts).create,
    ApiKey.RENEW_DELEGATION_TOKEN: lambda parts: _handler(parts).renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda parts: _handler(parts).expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda parts: _handler(parts).describe,
}
NO_TIME: Final = -1
Token: TypeAlias = DelegationToken | None


class DelegationTokensHandler:
    """Serves the four requests; `nodes` is None without tokens."""

    def __init__(self, tasks: RequestTasks, nodes: TokenNodes | None) -> None:
        self._tasks = tasks
        self._nodes = nodes

    def create(self, request: Request, message: CreateDelegationTokenRequest) -> Reply:
        """Make a token."""
        owner, sender = owner_of(request, message), sender_of(request)
        renewers = [
            Principal(each.principal_type, each.principal_name) for each in message.renewers
        ]
        if not may_request(request):
            return Reply(refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, sender))
        if any(each.kind != USER for each in (owner, *renewers)):
            # As in Kafka for renewers. Every login of a token is that of a user.
            return Reply(refused(ErrorCode.INVALID_PRINCIPAL_TYPE, owner, sender))
        if self._nodes is None:
            return Reply(refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, sender))
        nodes = self._nodes
        token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        made = new_token(
            token_id,
            owner,
            sender,
            renewers,
            max_lifetime_ms=message.max_lifetime_ms,
            lifetimes=nodes.lifetimes,
            now_ms=nodes.now_ms(),
        )

        def add(_current: DelegationToken | None) -> DelegationToken:
            # No other change happens between this check and the write.
            nodes.tokens.check_new(made)
            return made

        async def create() -> CreateDelegationTokenResponse:
            try:
                await nodes.change(token_id, add)
            except ApiError as error:
                return refused(error.code, owner, sender)
            return CreateDelegationTokenResponse(
                principal_type=owner.kind,
                principal_name=owner.name,
                token_requester_principal_type=sender.kind,
                token_requester_principal_name=sender.name,
                issue_timestamp_ms=made.issue_ms,
                expiry_timestamp_ms=made.expiry_ms,
                max_timestamp_ms=made.max_ms,
                token_id=token_id,
                hmac=nodes.tokens.hmac_of(token_id),
            )

        return self._tasks.run(create)

    def renew(self, request: Request, message: RenewDelegationTokenRequest) -> Reply:
        """Let a token expire later."""

        def renew(token: Token, nodes: TokenNodes, now_ms: int) -> Token:
            sender, period_ms = sender_of(request), message.renew_period_ms
            return renewed(token, sender, period_ms, lifetimes=nodes.lifetimes, now_ms=now_ms)

        return self._change(request, message.hmac, renew, RenewDelegationTokenResponse)

    def expire(self, request: Request, message: ExpireDelegationTokenRequest) -> Reply:
        """Let a token expire earlier, or delete it."""

        def shorten(token: Token, _nodes: TokenNodes, now_ms: int) -> Token:
            period_ms = message.expiry_time_period_ms
            return shortened(token, sender_of(request), period_ms, now_ms=now_ms)

        return self._change(request, message.hmac, shorten, ExpireDelegationTokenResponse)

    def _change(
        self,
        request: Request,
        hmac: bytes | memoryview,
        decide: Callable[[Token, TokenNodes, int], Token],
        response: Callable[..., object],
    ) -> Reply:
        """Change the token with this `hmac`, and respond with its new expiry."""

        async def change() -> object:
            code, expiry_ms = ErrorCode.NONE, NO_TIME
            try:
                nodes = self._served(request)
                now_ms = nodes.now_ms()
                token = await nodes.change(
                    nodes.tokens.id_of(bytes(hmac)), lambda current: decide(current, nodes, now_ms)
                )
                expiry_ms = token.expiry_ms if token is not None else now_ms
            except ApiError as error:
                code = error.code
            return response(error_code=code, expiry_timestamp_ms=expiry_ms)

        return self._tasks.run(change)

    def describe(self, request: Request, message: DescribeDelegationTokenRequest) -> Reply:
        """Return the tokens of the named owners, or all; a guard removes tokens of others."""
        try:
            nodes = self._served(request)
        except ApiError as error:
            return Reply(DescribeDelegationTokenResponse(error_code=error.code))
        owners = message.owners
        named = None
        if owners is not None:
            named = [Principal(each.principal_type, each.principal_name) for each in owners]
        tokens = nodes.tokens
        found = [_described(each, tokens.hmac_of(each.token_id)) for each in tokens.owned_by(named)]
        return Reply(DescribeDelegationTokenResponse(tokens=found))

    def _served(self, request: Request) -> TokenNodes:
        if not may_request(request):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if self._nodes is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._nodes


def sender_of(request: Request) -> Principal:
    """Return the principal that sends a request."""
    return request.connection.principal


def owner_of(request: Request, message: CreateDelegationTokenRequest) -> Principal:
    """Return the owner of a new token, by default the sender."""
    if not message.owner_principal_name:
        return sender_of(request)
    return Principal(message.owner_principal_type or "", message.owner_principal_name)


def may_request(request: Request) -> bool:
    """Whether a connection may send these requests.

    It may not without encryption or authentication, nor if a token has authenticated it.
    """
    session = request.connection.session
    if session is None:
        return sender_of(request) != ANONYMOUS
    return not session.uses_token


def refused(code: ErrorCode, owner: Principal, sender: Principal) -> CreateDelegationTokenResponse:
    """Return the response to a creation that fails."""
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=sender.kind,
        token_requester_principal_name=sender.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    owner, requester = parse_principal(token.owner), parse_principal(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.kind, principal_name=each.name)
            for each in map(parse_principal, token.renewers)
        ],
    )


def _handler(parts: Parts) -> DelegationTokensHandler:
    return DelegationTokensHandler(parts.tasks, parts.tokens)
