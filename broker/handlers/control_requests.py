"""LeaderAndIsr, StopReplica and UpdateMetadata: the requests of the controller (edge).

Control requests that change replicas run one after the other, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from functools import partial
from typing import Final

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.metadata_update import deleted_partitions, updated
from broker.handlers.from_brokers import from_controller
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.replication.control_orders import RoleChange, is_legal, role_changes
from broker.replication.replica_roles import ReplicaRoles
from coordination.errors import SessionExpiredError
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from storage.directory.logs import Logs

APIS: Final[Apis] = {
    ApiKey.LEADER_AND_ISR: lambda parts: from_controller(
        parts,
        LeaderAndIsrHandler(parts.replicas.roles, parts.logs, parts.configs.topics.refresh).handle,
        LeaderAndIsrResponse,
    ),
    ApiKey.STOP_REPLICA: lambda parts: from_controller(
        parts, StopReplicaHandler(parts.replicas.roles).handle, StopReplicaResponse
    ),
    ApiKey.UPDATE_METADATA: lambda parts: from_controller(
        parts,
        UpdateMetadataHandler(
            parts.metadata,
            parts.fence,
            parts.groups.commits.on_partitions_deleted,
            parts.transactions.sender.on_partitions_deleted,
        ).handle,
        UpdateMetadataResponse,
    ),
}


class LeaderAndIsrHandler:
    """Handles one request after the other."""

    def __init__(
        self,
        roles: ReplicaRoles,
        logs: Logs,
        learn_configs: Callable[[Set[str]], Awaitable[None]],
    ) -> None:
        """Call `learn_configs` to read the configs of topics before their logs are created."""
        self._roles = roles
        self._logs = logs
        self._learn_configs = learn_configs

    def handle(self, request: Request, message: LeaderAndIsrRequest) -> Reply:
        """Respond when the request is done; control requests run in order of arrival."""
        work = partial(self._apply, message, request.header.api_version, request.connection.number)
        return self._roles.queue.run(work)

    async def _apply(
        self, message: LeaderAndIsrRequest, version: int, connection: int
    ) -> LeaderAndIsrResponse:
        changes = list(role_changes(message))
        new_topics = self._new_topics(changes)
        if new_topics:
            try:
                await self._learn_configs(new_topics)
            except SessionExpiredError:
                # The registration that the controller addresses ended with the session.
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return await self._roles.become_leader_or_follower(message, changes, version, connection)

    def _new_topics(self, changes: Iterable[RoleChange]) -> set[str]:
        """Return the topics of the logs to be created."""
        changed = [change.topic_partition for change in changes]
        return {each.topic for each in changed if self._logs.get(each) is None and is_legal(each)}


class StopReplicaHandler:
    """Handles one request after the other."""

    def __init__(self, roles: ReplicaRoles) -> None:
        self._roles = roles

    def handle(self, request: Request, message: StopReplicaRequest) -> Reply:
        """Respond when the request is done; control requests run in order of arrival."""
        work = partial(self._roles.stop_replicas, message, request.connection.number)
        return self._roles.queue.run(work)


class UpdateMetadataHandler:
    """Updates the cluster image, unless the request is stale."""

    def __init__(
        self,
        metadata: MetadataCache,
        fence: ControlFence,
        *on_deleted: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        """Call `on_deleted` with deleted partitions: their offsets and markers are dropped."""
        self._metadata = metadata
        self._fence = fence
        self._on_deleted = on_deleted

    def handle(self, request: Request, message: UpdateMetadataRequest) -> Reply:
        """Respond with NONE, STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH."""
        refusal = self._fence.refuse(
            message.controller_epoch, message.broker_epoch, request.connection.number
        )
        if refusal is None:
            before, after = self._metadata.image, updated(self._metadata.image, message)
            self._metadata.adopt(after)
            if deleted := deleted_partitions(before, message, after):
                for listener in self._on_deleted:
                    listener(deleted)
        return Reply(UpdateMetadataResponse(error_code=refusal or ErrorCode.NONE))
