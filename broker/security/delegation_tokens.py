"""Delegation tokens: their secrets, their logins, and the rules for changes (decision).

A token authenticates as its owner by SCRAM, with its id as the name and its HMAC as the password.
The HMAC depends only on the id and on the key that all brokers share, so no znode holds it.

Source: KIP-48, KIP-373; DelegationTokenManagerZk of Kafka 3.9. Kafka serves an expired token until
the next sweep, and closes its connections at their first request; here its login is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from broker.security.principal import USER, Principal, parse_principal
from clusterstate.znodes.delegation_token import DelegationToken, encode_token
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.sasl_servers import TokenLogin
from kafkawire.scram import HASHES, MIN_ITERATIONS, Credential, encode_base64, salt_password

MAX_TOKENS_PER_OWNER: Final = 1_000
MAX_TOKEN_BYTES: Final = 16 * 1024
"""Kafka has no such limits. The coordinator holds all tokens in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """Longest lifetime of a token, and the default time until it must be renewed."""

    max_ms: int
    renewal_ms: int


@dataclass(slots=True)
class DelegationTokens:
    """The tokens as known to this broker."""

    key: bytes = field(repr=False)
    by_id: dict[str, DelegationToken] = field(default_factory=dict)
    _ids: dict[bytes, str] = field(default_factory=dict, repr=False)
    """By HMAC."""
    _credentials: dict[tuple[str, str], Credential] = field(default_factory=dict, repr=False)
    """By id and mechanism, since the first login of each token: one takes 1 or 2 ms."""

    def set(self, token_id: str, token: DelegationToken | None) -> None:
        """Adopt a token; None if it does not exist."""
        if token is not None:
            self.by_id[token_id] = token
            self._ids[self.hmac_of(token_id)] = token_id
        elif self.by_id.pop(token_id, None) is not None:
            del self._ids[self.hmac_of(token_id)]
            for mechanism in HASHES:
                self._credentials.pop((token_id, mechanism), None)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        return hmac.digest(self.key, token_id.encode(), "sha512")

    def id_of(self, secret: bytes) -> str:
        """Return the id of the token with a secret.

        Raises:
            ApiError: there is none.
        """
        # A lookup by hash does not compare byte by byte with the secrets of tokens.
        token_id = self._ids.get(secret)
        if token_id is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token_id

    def login(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin | None:
        """Return the login of a token; None if there is none, or it has expired."""
        token = self.by_id.get(token_id)
        if token is None or is_expired(token, now_ms) or not token.owner.startswith(f"{USER}:"):
            return None
        return TokenLogin(
            owner=parse_principal(token.owner).name,
            credential=self._credential(mechanism, token_id),
            lifetime_ms=max(1, min(token.expiry_ms, token.max_ms) - now_ms),
        )

    def _credential(self, mechanism: str, token_id: str) -> Credential:
        found = self._credentials.get((token_id, mechanism))
        if found is None:
            password = encode_base64(self.hmac_of(token_id))
            salt = hmac.digest(self.key, f"salt,{mechanism},{token_id}".encode(), "sha256")
            salted = salt_password(mechanism, password, salt, MIN_ITERATIONS)
            found = Credential.of(mechanism, salted, salt, MIN_ITERATIONS)
            self._credentials[token_id, mechanism] = found
        return found

    def expired(self, now_ms: int) -> list[str]:
        """Return the ids of the tokens to delete."""
        return [token_id for token_id, token in self.by_id.items() if is_expired(token, now_ms)]

    def owned_by(self, owners: Sequence[Principal] | None) -> Iterator[DelegationToken]:
        """Yield the tokens that one of `owners` owns, may renew or has requested for an owner.

        Yield all tokens if it is None.
        """
        names = None if owners is None else {str(each) for each in owners}
        for token in self.by_id.values():
            users = (token.owner, token.requester, *token.renewers)
            if names is None or not names.isdisjoint(users):
                yield token

    def check_new(self, token: DelegationToken) -> None:
        """Check that the coordinator has room for another token of an owner.

        Raises:
            ApiError: it is larger than `MAX_TOKEN_BYTES`, or there are `MAX_TOKENS_PER_OWNER`.
        """
        if len(encode_token(token)) > MAX_TOKEN_BYTES:
            text = f"a token may have {MAX_TOKEN_BYTES} bytes: name fewer renewers"
            raise ApiError(ErrorCode.POLICY_VIOLATION, text)
        if sum(each.owner == token.owner for each in self.by_id.values()) >= MAX_TOKENS_PER_OWNER:
            text = f"{token.owner} has {MAX_TOKENS_PER_OWNER} tokens: let some of them expire"
            raise ApiError(ErrorCode.POLICY_VIOLATION, text)


def is_expired(token: DelegationToken, now_ms: int) -> bool:
    """Whether a token authenticates nobody any more."""
    return token.max_ms < now_ms or token.expiry_ms < now_ms


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Sequence[Principal],
    *,
    max_lifetime_ms: int,
    lifetimes: TokenLifetimes,
    now_ms: int,
) -> DelegationToken:
    """Return a new token; without a positive `max_lifetime_ms` it gets the longest lifetime."""
    lifetime_ms = lifetimes.max_ms
    if max_lifetime_ms > 0:
        lifetime_ms = min(max_lifetime_ms, lifetime_ms)
    max_ms = now_ms + lifetime_ms
    return DelegationToken(
        token_id=token_id,
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(str(each) for each in renewers),
        issue_ms=now_ms,
        max_ms=max_ms,
        expiry_ms=min(max_ms, now_ms + lifetimes.renewal_ms),
    )


def renewed(
    token: DelegationToken | None,
    sender: Principal,
    period_ms: int,
    *,
    lifetimes: TokenLifetimes,
    now_ms: int,
) -> DelegationToken:
    """Return a token after its renewal by `sender`; a negative period is the default one.

    Raises:
        ApiError: it does not exist, has expired, or `sender` may not renew it.
    """
    token = _checked(token, sender)
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(token, now_ms + (lifetimes.renewal_ms if period_ms < 0 else period_ms))


def shortened(
    token: DelegationToken | None, sender: Principal, period_ms: int, *, now_ms: int
) -> DelegationToken | None:
    """Return a token that expires after a period; None to delete it at once, if that is negative.

    Raises:
        ApiError: it does not exist, has expired, or `sender` may not renew it.
    """
    token = _checked(token, sender)
    if period_ms < 0:
        return None
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(token, now_ms + period_ms)


def _checked(token: DelegationToken | None, sender: Principal) -> DelegationToken:
    if token is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if str(sender) not in (token.owner, *token.renewers):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def _until(token: DelegationToken, expiry_ms: int) -> DelegationToken:
    return replace(token, expiry_ms=min(token.max_ms, expiry_ms))
