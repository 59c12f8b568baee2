"""A delegation token at `/delegation_token/tokens/<id>`, without its secret (decision).

Source: DelegationTokenManagerZk, TokenInformation of Kafka 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json
from clusterstate.znodes.paths import sanitized

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
CHANGE_PREFIX: Final = f"{CHANGES}/token_change_"
VERSION: Final = 3
REQUESTER_SINCE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token; principals have the form `User:name`, times are epoch milliseconds."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int


def token_path(token_id: str) -> str:
    """Return the path of a token."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Return the data of a token's znode."""
    return encode_json(
        {
            "version": VERSION,
            "owner": sanitized(token.owner),
            "tokenRequester": sanitized(token.requester),
            "renewers": [sanitized(each) for each in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.token_id,
        }
    )


def decode_token(data: bytes | None) -> DelegationToken:
    """Return the token in a znode.

    Raises:
        MalformedZnodeError: there is none.
    """
    fields = JsonObject.decode(data)
    version = fields.integer("version")
    if not 1 <= version <= VERSION:
        raise MalformedZnodeError(f"the token has version {version}, not 1 to {VERSION}")
    owner = unquote(fields.text("owner"))
    requester = unquote(fields.text("tokenRequester")) if version >= REQUESTER_SINCE else owner
    token = DelegationToken(
        token_id=fields.text("tokenId"),
        owner=owner,
        requester=requester,
        renewers=tuple(unquote(each) for each in fields.texts("renewers")),
        issue_ms=fields.integer("issueTimestamp"),
        max_ms=fields.integer("maxTimestamp"),
        expiry_ms=fields.integer("expiryTimestamp"),
    )
    for principal in (token.owner, token.requester, *token.renewers):
        kind, colon, _ = principal.partition(":")
        if not kind or not colon:
            raise MalformedZnodeError("a principal of the token has no kind or no colon")
    return token


def decode_change(data: bytes | None) -> str:
    """Return the id of the token that a notification announces.

    Raises:
        MalformedZnodeError: it is not text.
    """
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedZnodeError(f"not text: {data!r}") from error
