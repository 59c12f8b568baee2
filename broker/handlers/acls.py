"""DescribeAcls, CreateAcls, DeleteAcls and DescribeUserScramCredentials (edge).

Responds like a Kafka broker with neither an authorizer nor credentials. Tools request these APIs
incidentally and continue when security is disabled, but a closed connection stops them.
"""

from __future__ import annotations

from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafkawire.messages.scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NO_AUTHORIZER: Final = "No authorizer is configured."
NO_CREDENTIAL: Final = "The user has no SCRAM credential."

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_ACLS: lambda _parts: describe_acls,
    ApiKey.CREATE_ACLS: lambda _parts: create_acls,
    ApiKey.DELETE_ACLS: lambda _parts: delete_acls,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda _parts: describe_scram_credentials,
}


def describe_acls(request: Request, message: DescribeAclsRequest) -> Reply:
    """Respond that security is disabled."""
    del request, message
    response = DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return Reply(response)


def create_acls(request: Request, message: CreateAclsRequest) -> Reply:
    """Refuse each entry."""
    del request
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return Reply(CreateAclsResponse(results=[refused] * len(message.creations)))


def delete_acls(request: Request, message: DeleteAclsRequest) -> Reply:
    """Refuse each filter."""
    del request
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return Reply(DeleteAclsResponse(filter_results=[refused] * len(message.filters)))


def describe_scram_credentials(
    request: Request, message: DescribeUserScramCredentialsRequest
) -> Reply:
    """Respond that no user has credentials; each requested user is unknown."""
    del request
    names = dict.fromkeys(user.name for user in message.users or ())
    results = [
        DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=NO_CREDENTIAL
        )
        for name in names
    ]
    return Reply(DescribeUserScramCredentialsResponse(results=results))
