"""Creates, renews, expires and lists delegation tokens (edge), KIP-48."""

from collections.abc import Iterable, Sequence

from kafkawire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkawire.sentinels import MAX_OFFSET
from ottla.client.admin.admin_request import change, error_or_none, raise_first, read
from ottla.client.admin_model import DelegationToken
from ottla.client.argument import require_bytes, require_text, require_whole
from ottla.client.errors import ConfigurationError
from ottla.client.network.cluster import Cluster

TOKENS = "delegation tokens"


async def create_token(
    cluster: Cluster,
    owner: str | None,
    renewers: Iterable[str],
    max_lifetime_ms: int,
    timeout_s: float,
) -> DelegationToken:
    """Return a new token of `owner`, by default of this user."""
    owner_type, owner_name = (None, None) if owner is None else _principal(owner)
    named = tuple(renewers)
    require_whole("max_lifetime_ms", max_lifetime_ms, -1, MAX_OFFSET)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, named)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    async def attempt() -> DelegationToken:
        response = await cluster.request_controller(request, CreateDelegationTokenResponse)
        raise_first([error_or_none(response.error_code, TOKENS)])
        return DelegationToken(
            token_id=response.token_id,
            hmac=bytes(response.hmac),
            owner=f"{response.principal_type}:{response.principal_name}",
            renewers=named,
            issue_ms=response.issue_timestamp_ms,
            expiry_ms=response.expiry_timestamp_ms,
            max_ms=response.max_timestamp_ms,
        )

    return await change(cluster, attempt, timeout_s)


async def renew_token(cluster: Cluster, hmac: bytes, period_ms: int, timeout_s: float) -> int:
    """Let a token expire later; return its new time of expiry."""
    _check(hmac, period_ms)
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

    async def attempt() -> int:
        response = await cluster.request_controller(request, RenewDelegationTokenResponse)
        raise_first([error_or_none(response.error_code, TOKENS)])
        return response.expiry_timestamp_ms

    return await change(cluster, attempt, timeout_s)


async def expire_token(cluster: Cluster, hmac: bytes, period_ms: int, timeout_s: float) -> int:
    """Let a token expire after a period, at once if it is negative; return the time of expiry."""
    _check(hmac, period_ms)
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

    async def attempt() -> int:
        response = await cluster.request_controller(request, ExpireDelegationTokenResponse)
        raise_first([error_or_none(response.error_code, TOKENS)])
        return response.expiry_timestamp_ms

    return await change(cluster, attempt, timeout_s)


async def describe_tokens(
    cluster: Cluster, owners: Sequence[str] | None, timeout_s: float
) -> list[DelegationToken]:
    """Return the tokens of `owners`, or all that this user may see."""
    request = DescribeDelegationTokenRequest(
        owners=None
        if owners is None
        else [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    )

    async def attempt() -> list[DelegationToken]:
        response = await cluster.request_any(
            request, DescribeDelegationTokenResponse, may_repeat=True
        )
        raise_first([error_or_none(response.error_code, TOKENS)])
        return [
            DelegationToken(
                token_id=each.token_id,
                hmac=bytes(each.hmac),
                owner=f"{each.principal_type}:{each.principal_name}",
                renewers=tuple(f"{it.principal_type}:{it.principal_name}" for it in each.renewers),
                issue_ms=each.issue_timestamp,
                expiry_ms=each.expiry_timestamp,
                max_ms=each.max_timestamp,
            )
            for each in response.tokens
        ]

    return await read(cluster, attempt, timeout_s)


def _check(hmac: bytes, period_ms: int) -> None:
    require_bytes("hmac", hmac)
    require_whole("period_ms", period_ms, -MAX_OFFSET, MAX_OFFSET)


def _principal(text: str) -> tuple[str, str]:
    require_text("a principal", text)
    kind, separator, name = text.partition(":")
    if not separator or not kind or not name:
        raise ConfigurationError(f"a principal must be like User:alice, got {text!r}")
    return kind, name
