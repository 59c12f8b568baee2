"""Lists and changes the SCRAM credentials of users (edge), KIP-554.

The client hashes passwords with a fresh salt, so that no broker sees them.
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from kafkawire.scram import MAX_ITERATIONS, NUMBERS, salt_of, salt_password
from ottla.client.admin.admin_request import (
    change,
    error_or_none,
    raise_first,
    raise_refused,
    read,
)
from ottla.client.admin_model import ScramDeletion, ScramUpsertion
from ottla.client.argument import require_instance, require_text, require_whole
from ottla.client.errors import ConfigurationError
from ottla.client.network.cluster import Cluster

SALT_BYTES: Final = 32
_NAMES: Final = {number: name for name, number in NUMBERS.items()}


async def describe_users(
    cluster: Cluster, users: Sequence[str] | None, timeout_s: float
) -> dict[str, dict[str, int]]:
    """Return the iterations of each mechanism of each user; None requests all users.

    Raises:
        BrokerError: a named user has no credentials, or this user may not list users.
    """
    if users is not None and not users:
        # In the request, an empty list means all users.
        return {}
    request = DescribeUserScramCredentialsRequest(
        users=None if users is None else [UserName(name=name) for name in users]
    )

    async def attempt() -> dict[str, dict[str, int]]:
        response = await cluster.request_any(
            request, DescribeUserScramCredentialsResponse, may_repeat=True
        )
        raise_first([error_or_none(response.error_code, "the users", response.error_message)])
        raise_refused(
            (f"user {user}" for user in users or ()),
            ((f"user {it.user}", it.error_code, it.error_message) for it in response.results),
        )
        return {
            result.user: {
                _NAMES.get(each.mechanism, f"mechanism {each.mechanism}"): each.iterations
                for each in result.credential_infos
            }
            for result in response.results
        }

    return await read(cluster, attempt, timeout_s)


async def alter_users(
    cluster: Cluster, changes: Sequence[ScramUpsertion | ScramDeletion], timeout_s: float
) -> None:
    """Set and delete credentials.

    Raises:
        BrokerError: the first refusal, with the others as notes; changes of other users were made.
        ConfigurationError: a change cannot be sent.
    """
    for each in changes:
        _check(each)
    # In a thread, because hashing takes milliseconds for each password.
    request = await asyncio.get_running_loop().run_in_executor(None, _request, changes)

    async def attempt() -> None:
        response = await cluster.request_controller(request, AlterUserScramCredentialsResponse)
        raise_refused(
            (f"user {each.user}" for each in changes),
            ((f"user {it.user}", it.error_code, it.error_message) for it in response.results),
        )

    await change(cluster, attempt, timeout_s)


def _check(change: ScramUpsertion | ScramDeletion) -> None:
    require_instance("a change", ScramUpsertion | ScramDeletion, change)
    require_text("user", change.user)
    if change.mechanism not in NUMBERS:
        known = ", ".join(NUMBERS)
        raise ConfigurationError(f"mechanism must be one of {known}, got {change.mechanism!r}")
    if isinstance(change, ScramDeletion):
        return
    require_whole("iterations", change.iterations, 1, MAX_ITERATIONS)
    try:
        is_usable = bool(change.password.encode())
    except (UnicodeEncodeError, AttributeError):
        is_usable = False
    if not is_usable:
        # Never quotes the password.
        raise ConfigurationError(
            f"the password of user {change.user} must be text in UTF-8 that is not empty"
        )


def _request(changes: Sequence[ScramUpsertion | ScramDeletion]) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=each.user, mechanism=NUMBERS[each.mechanism])
            for each in changes
            if isinstance(each, ScramDeletion)
        ],
        upsertions=[_upsertion(each) for each in changes if isinstance(each, ScramUpsertion)],
    )


def _upsertion(change: ScramUpsertion) -> ScramCredentialUpsertion:
    # Like the salts that brokers invent for unknown users, so that no salt shows a user.
    salt = salt_of(secrets.token_bytes(SALT_BYTES))
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=NUMBERS[change.mechanism],
        iterations=change.iterations,
        salt=salt,
        salted_password=salt_password(change.mechanism, change.password, salt, change.iterations),
    )
