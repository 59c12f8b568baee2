"""Declares the requests about delegation tokens: Create, Renew, Expire, Describe (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BYTES, INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class CreatableRenewers:
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@message(versions=(0, 3), flexible=2)
class CreateDelegationTokenRequest:
    """Request for a token of an owner, by default the sender; -1 is the longest lifetime."""

    owner_principal_type: str | None = field(STRING, since=3, nullable=3)
    owner_principal_name: str | None = field(STRING, since=3, nullable=3)
    renewers: Sequence[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


@message(versions=(0, 3), flexible=2)
class CreateDelegationTokenResponse:
    """The token; its HMAC is a secret."""

    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3, ignorable=True)
    token_requester_principal_name: str = field(STRING, since=3, ignorable=True)
    issue_timestamp_ms: int = field(INT64)
    expiry_timestamp_ms: int = field(INT64)
    max_timestamp_ms: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    throttle_time_ms: int = field(INT32)


@message(versions=(0, 2), flexible=2)
class RenewDelegationTokenRequest:
    """Request to let a token expire later; a negative period is the default one."""

    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


@message(versions=(0, 2), flexible=2)
class RenewDelegationTokenResponse:
    """The new time of expiry."""

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)


@message(versions=(0, 2), flexible=2)
class ExpireDelegationTokenRequest:
    """Request to let a token expire after a period; a negative one deletes it at once."""

    hmac: bytes = field(BYTES)
    expiry_time_period_ms: int = field(INT64)


@message(versions=(0, 2), flexible=2)
class ExpireDelegationTokenResponse:
    """The new time of expiry."""

    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@message(versions=(0, 3), flexible=2)
class DescribeDelegationTokenRequest:
    """Request for the tokens of owners; None for all tokens."""

    owners: Sequence[DescribeDelegationTokenOwner] | None = field(
        array(DescribeDelegationTokenOwner), nullable=0
    )


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


@struct
class DescribedDelegationToken:
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3, ignorable=True)
    token_requester_principal_name: str = field(STRING, since=3, ignorable=True)
    issue_timestamp: int = field(INT64)
    expiry_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    renewers: Sequence[DescribedDelegationTokenRenewer] = field(
        array(DescribedDelegationTokenRenewer)
    )


@message(versions=(0, 3), flexible=2)
class DescribeDelegationTokenResponse:
    """The tokens that the sender may see, with their secrets."""

    error_code: int = field(INT16)
    tokens: Sequence[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
