"""Access control (decision): schemes, identities, and the check of an access control list.

The schemes are world, auth, digest, ip, x509 and sasl; an identity of scheme super passes every
check. An ACL in the tree is a tuple shared by all nodes that have it.

Source: ZooKeeper `PrepRequestProcessor.fixupACL`, `ZooKeeperServer.checkACL`, and the providers in
`org.apache.zookeeper.server.auth`.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from coordination.errors import ErrorCode, OperationError
from coordination.protocol.messages import OPEN_ACL, Acl
from trust.distinguished_name import is_distinguished_name


class Permission:
    """Bits of `Acl.perms`."""

    # Plain numbers, because member lookup in an enum runs Python code, here for every request.

    READ: Final = 1
    WRITE: Final = 2
    CREATE: Final = 4
    DELETE: Final = 8
    ADMIN: Final = 16
    ALL: Final = 31


class Identity(NamedTuple):
    """One authenticated identity of a connection."""

    scheme: str
    id: str


SUPER: Final = Identity("super", "")
SASL_SUPER: Final = Identity("sasl", "super")
"""Matches each entry of its scheme, as in ZooKeeper."""
MAX_IDENTITIES: Final = 16
"""Limit per connection, including its address, because each access checks all of them."""
MAX_CREDENTIALS_BYTES: Final = 4096
MAX_ENTRIES: Final = 100
"""Limit per ACL, because each access to its node checks all of them."""
MAX_ID_CHARS: Final = 16_384
"""Limit of the ids in one ACL together: ACLs that are no longer used are kept for a while."""
MAX_NETWORK_CHARS: Final = 64
_UNPROVABLE: Final = frozenset({"ip", "world", "super"})
"""Schemes that `auth` does not expand to, because they need no credentials of the client."""
_IPV4_BITS: Final = 32
_JAVA_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_KERBEROS_NAME: Final = re.compile(r"[^/@]*(/[^/@]*)?@[^/@]*|[^@]*")


def digest_identity(credentials: bytes) -> Identity:
    """Return the identity of `user:password`."""
    user = credentials.decode(errors="replace").partition(":")[0]
    digest = base64.b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest())
    return Identity("digest", f"{user}:{digest.decode()}")


def authenticate(
    scheme: str | None, credentials: bytes, known: Sequence[Identity], super_digest: str | None
) -> tuple[Identity, ...] | None:
    """Return all identities including that of `credentials`; None if these are refused."""
    if scheme == "ip" or (scheme == "x509" and any(each.scheme == "x509" for each in known)):
        return tuple(known)
    if scheme != "digest" or len(credentials) > MAX_CREDENTIALS_BYTES:
        return None
    identity = digest_identity(credentials)
    is_super = hmac.compare_digest(identity.id.encode(), (super_digest or "").encode())
    return added(known, *((SUPER, identity) if is_super else (identity,)))


def added(known: Sequence[Identity], *more: Identity) -> tuple[Identity, ...] | None:
    """Return `known` with the identities in `more` before it; None if these are too many."""
    found = tuple(dict.fromkeys([*more, *known]))
    return found if len(found) <= MAX_IDENTITIES else None


def user_of(identity: Identity) -> str:
    """Return the display name of an identity, without its password digest."""
    if identity.scheme == SUPER.scheme:
        return ""
    return identity.id.partition(":")[0] if identity.scheme == "digest" else identity.id


def require(acl: Sequence[Acl], permission: int, identities: Iterable[Identity], path: str) -> None:
    """Check that one of `identities` has a bit of `permission`.

    Raises:
        OperationError: NO_AUTH.
    """
    if not allows(acl, permission, identities):
        raise OperationError.of(ErrorCode.NO_AUTH, path)


def allows(acl: Sequence[Acl], permission: int, identities: Iterable[Identity]) -> bool:
    """Whether one of `identities` has a bit of `permission`."""
    return acl is OPEN_ACL or _allows(tuple(acl), permission, tuple(identities))


# Cached, because a multi may check the same node thousands of times.
@lru_cache(maxsize=1024)
def _allows(acl: tuple[Acl, ...], permission: int, known: tuple[Identity, ...]) -> bool:
    if any(identity.scheme == SUPER.scheme for identity in known):
        return True
    return any(
        entry.perms & permission
        and (
            (entry.scheme == "world" and entry.id == "anyone")
            or any(_matches(entry, identity) for identity in known)
        )
        for entry in acl
    )


def _matches(entry: Acl, identity: Identity) -> bool:
    if entry.scheme != identity.scheme:
        return False
    if entry.scheme == "ip":
        return _ip_matches(identity.id, entry.id or "")
    return entry.id == identity.id or identity == SASL_SUPER


def resolve(acl: Sequence[Acl], identities: Iterable[Identity], path: str) -> tuple[Acl, ...]:
    """Return the ACL to store: without duplicates, with `auth` expanded to the caller's ids.

    Raises:
        OperationError: INVALID_ACL if it is empty or too long, has an unknown scheme or a malformed
            id, or has `auth` but the caller has not authenticated.
    """
    if tuple(acl) == OPEN_ACL:
        return OPEN_ACL
    if len(acl) > MAX_ENTRIES or _id_chars(acl) > MAX_ID_CHARS:
        raise OperationError.of(ErrorCode.INVALID_ACL, path)
    resolved: list[Acl] = []
    for entry in dict.fromkeys(acl):
        expanded = _expand(entry, identities)
        if not expanded:
            raise OperationError.of(ErrorCode.INVALID_ACL, path)
        resolved.extend(expanded)
    if not 0 < len(resolved) <= MAX_ENTRIES or _id_chars(resolved) > MAX_ID_CHARS:
        raise OperationError.of(ErrorCode.INVALID_ACL, path)
    return tuple(resolved)


def _id_chars(acl: Iterable[Acl]) -> int:
    return sum(len(entry.id or "") for entry in acl)


def _expand(entry: Acl, identities: Iterable[Identity]) -> list[Acl]:
    match entry.scheme:
        case "world" if entry.id == "anyone":
            return [entry]
        case "auth":
            return [
                Acl(entry.perms, identity.scheme, identity.id)
                for identity in identities
                if identity.scheme not in _UNPROVABLE
            ]
        # As in Java, empty parts at the end do not count.
        case "digest" if entry.id is not None and len(entry.id.rstrip(":").split(":")) == 2:
            return [entry]
        case "x509" if entry.id is not None and is_distinguished_name(entry.id):
            return [entry]
        case "sasl" if entry.id is not None and _KERBEROS_NAME.fullmatch(entry.id):
            return [entry]
        case "ip" if _is_network(entry.id or ""):
            return [entry]
        case _:
            return []


def masked(acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """Return the ACL with password digests hidden, for clients without ADMIN permission."""
    return tuple(
        Acl(entry.perms, "digest", (entry.id or "").partition(":")[0] + ":x")
        if entry.scheme == "digest"
        else entry
        for entry in acl
    )


def _is_network(expression: str) -> bool:
    return len(expression) <= MAX_NETWORK_CHARS and _network(expression) is not None


@lru_cache(maxsize=1024)
def _network(expression: str) -> _Network | None:
    address, slash, prefix_bits = expression.partition("/")
    try:
        if ":" in address:
            return ipaddress.ip_network(expression, strict=False)
        # Java's numbers may have a sign and leading zeros, and there are no netmasks.
        numbers = [_number(part, 0xFF) for part in address.split(".")]
        bits = _number(prefix_bits, _IPV4_BITS) if slash else _IPV4_BITS
        return ipaddress.IPv4Network((bytes(numbers), bits), strict=False)
    except ValueError:
        return None


def _number(text: str, greatest: int) -> int:
    number = int(text) if _JAVA_NUMBER.fullmatch(text) else -1
    if not 0 <= number <= greatest:
        raise ValueError(f"{text!r} is not a number within 0..{greatest}")
    return number


def _ip_matches(address: str, expression: str) -> bool:
    network = _network(expression)
    try:
        return network is not None and ipaddress.ip_address(address) in network
    except ValueError:
        return False
