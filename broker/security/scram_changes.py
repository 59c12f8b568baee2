"""The rules for changes of SCRAM credentials (decision).

Source: KIP-554; ZkAdminManager.alterUserScramCredentials of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from clusterstate.znodes.scram_credential import encode_credential
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkawire.scram import MIN_ITERATIONS, NUMBERS, Credential

MECHANISMS: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}
"""By Kafka's numbers."""
MAX_ITERATIONS: Final = 16_384
SHOWN: Final = 1_000
"""Characters of a user's name in an error text, which has a limit of its own."""

Configs = Mapping[str, str]


@dataclass(slots=True)
class UserChange:
    """The changes of one user's credentials, which succeed or fail together."""

    deletions: list[int] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)

    def check(self, user: str) -> None:
        """Check the changes.

        Raises:
            ApiError: a rule of KIP-554 is broken.
        """
        numbers = [*self.deletions, *(each.mechanism for each in self.upsertions)]
        if not user:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if any(number not in MECHANISMS for number in numbers):
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        for each in self.upsertions:
            if each.iterations < MIN_ITERATIONS:
                raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
            if each.iterations > MAX_ITERATIONS:
                raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
            if not each.salt or not each.salted_password:
                text = "Salt and salted password must not be empty"
                raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
        if max(Counter(numbers).values()) > 1:
            text = "A user credential cannot be altered twice in the same request"
            raise ApiError(ErrorCode.DUPLICATE_RESOURCE, text)

    def apply(self, configs: Configs) -> dict[str, str]:
        """Return a user's configs after the changes; others of its configs stay.

        Raises:
            ApiError: RESOURCE_NOT_FOUND, if a credential to delete does not exist.
        """
        result = dict(configs)
        for number in self.deletions:
            if result.pop(MECHANISMS[number], None) is None:
                text = "Attempt to delete a user credential that does not exist"
                raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, text)
        for each in self.upsertions:
            mechanism = MECHANISMS[each.mechanism]
            result[mechanism] = encode_credential(
                Credential.of(mechanism, each.salted_password, each.salt, each.iterations)
            )
        return result


def changes_of(message: AlterUserScramCredentialsRequest) -> dict[str, UserChange]:
    """Return the changes in a request, by user."""
    changes: dict[str, UserChange] = {}
    for deletion in message.deletions:
        changes.setdefault(deletion.name, UserChange()).deletions.append(deletion.mechanism)
    for upsertion in message.upsertions:
        changes.setdefault(upsertion.name, UserChange()).upsertions.append(upsertion)
    return changes


def described(
    names: Iterable[str], found: Mapping[str, Mapping[str, Credential]]
) -> dict[str, tuple[ErrorCode, str | None, Mapping[str, Credential]]]:
    """Return error, text and credentials of each named user.

    No user may be named twice, and each must have a credential.
    """
    result: dict[str, tuple[ErrorCode, str | None, Mapping[str, Credential]]] = {}
    for name, count in Counter(names).items():
        if count > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice: {name[:SHOWN]}"
            result[name] = (ErrorCode.DUPLICATE_RESOURCE, text, {})
        elif name not in found:
            start = "Attempt to describe a user credential that does not exist"
            text = f"{start}: {name[:SHOWN]}"
            result[name] = (ErrorCode.RESOURCE_NOT_FOUND, text, {})
        else:
            result[name] = (ErrorCode.NONE, None, found[name])
    return result
