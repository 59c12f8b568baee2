"""Declares DescribeUserScramCredentials and AlterUserScramCredentials (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BYTES, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class UserName:
    name: str = field(STRING)


@message(versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Request for the credentials of users; None or an empty array requests all users."""

    users: Sequence[UserName] | None = field(array(UserName), nullable=0)


@struct
class CredentialInfo:
    mechanism: int = field(INT8)
    iterations: int = field(INT32)


@struct
class DescribeUserScramCredentialsResult:
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    credential_infos: Sequence[CredentialInfo] = field(array(CredentialInfo))


@message(versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse:
    """The mechanisms of each user; never a secret."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    results: Sequence[DescribeUserScramCredentialsResult] = field(
        array(DescribeUserScramCredentialsResult)
    )


@struct
class ScramCredentialDeletion:
    name: str = field(STRING)
    mechanism: int = field(INT8)


@struct
class ScramCredentialUpsertion:
    name: str = field(STRING)
    mechanism: int = field(INT8)
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


@message(versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    """Request to delete and set credentials; the client has salted and hashed the passwords."""

    deletions: Sequence[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: Sequence[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult:
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@message(versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse:
    """The outcome for each user."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[AlterUserScramCredentialsResult] = field(
        array(AlterUserScramCredentialsResult)
    )
