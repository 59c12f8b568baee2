"""DescribeUserScramCredentials and AlterUserScramCredentials (edge), KIP-554."""

from __future__ import annotations

from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.handlers.handler_table import Apis, Parts
from broker.live_configs.config_nodes import ConfigNodes
from broker.live_configs.scram_users import ScramUsers
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.quotas.entity import USER, QuotaEntity
from broker.security.scram_changes import UserChange, changes_of, described
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkawire.scram import NUMBERS

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda parts: _handler(parts).describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda parts: _handler(parts).alter,
}


class ScramCredentialsHandler:
    """Shows the mechanisms of users, and changes their credentials."""

    def __init__(
        self,
        tasks: RequestTasks,
        nodes: ConfigNodes,
        users: ScramUsers,
        controller: ControllerRole,
    ) -> None:
        self._tasks = tasks
        self._nodes = nodes
        self._users = users
        self._controller = controller

    def describe(self, request: Request, message: DescribeUserScramCredentialsRequest) -> Reply:
        """Respond with mechanisms and iterations of the named users, or of all."""
        del request
        return self._tasks.run(lambda: self._describe(message))

    def alter(self, request: Request, message: AlterUserScramCredentialsRequest) -> Reply:
        """Change the credentials of each user, or refuse all changes of that user."""
        del request
        return self._tasks.run(lambda: self._alter(message))

    async def _describe(
        self, message: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        try:
            found = await self._users.read_all()
        except ApiError as error:
            return DescribeUserScramCredentialsResponse(
                error_code=error.code, error_message=error.message
            )
        names = [each.name for each in message.users or ()] or sorted(found)
        return DescribeUserScramCredentialsResponse(
            error_message=None,
            results=[
                DescribeUserScramCredentialsResult(
                    user=user,
                    error_code=code,
                    error_message=text,
                    credential_infos=[
                        CredentialInfo(mechanism=NUMBERS[name], iterations=each.iterations)
                        for name, each in credentials.items()
                    ],
                )
                for user, (code, text, credentials) in described(names, found).items()
            ],
        )

    async def _alter(
        self, message: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        results = []
        for user, change in changes_of(message).items():
            code, text = ErrorCode.NONE, None
            try:
                await self._alter_one(user, change)
            except ApiError as error:
                code, text = error.code, error.message or error.code.text
            results.append(
                AlterUserScramCredentialsResult(user=user, error_code=code, error_message=text)
            )
        return AlterUserScramCredentialsResponse(results=results)

    async def _alter_one(self, user: str, change: UserChange) -> None:
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.text)
        change.check(user)
        await self._nodes.change(QuotaEntity.of([(USER, user)]).path, change.apply)


def _handler(parts: Parts) -> ScramCredentialsHandler:
    return ScramCredentialsHandler(
        parts.tasks, parts.configs.nodes, parts.configs.scram_users, parts.controller
    )
