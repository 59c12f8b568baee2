"""DescribeAcls, CreateAcls, DeleteAcls and DescribeUserScramCredentials, as a Kafka answers them
that has neither an authorizer nor credentials (edge).

Tools ask for these in passing and go on when they hear that security is off. A closed connection
ends them.
"""

from __future__ import annotations

from typing import Final

from broker.network.reply import Reply
from broker.network.request_channel import Request
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


def describe_acls(request: Request, message: DescribeAclsRequest) -> Reply:
    """Answer that there are none to look for."""
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
    """Answer that no user has any; a user that is asked for by name does not exist."""
    del request
    names = dict.fromkeys(user.name for user in message.users or ())
    results = [
        DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=NO_CREDENTIAL
        )
        for name in names
    ]
    return Reply(DescribeUserScramCredentialsResponse(results=results))
