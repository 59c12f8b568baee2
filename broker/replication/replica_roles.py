"""Handles LeaderAndIsr and StopReplica: assigns roles and stops replicas (edge).

Requests are handled one after the other. All changes of one request happen in one turn of the event
loop, after the logs that it needs have been opened (`replica_opening`). Invariants: a request of an
older controller, for an earlier incarnation of this broker, or of an older leadership changes
nothing; a partition is copied from its leader or led, never both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from broker.cluster.control_fence import ControlFence, refuse_leadership, refuse_stop
from broker.cluster.metadata_cache import MetadataCache
from broker.config.replication_keys import ReplicationKeys
from broker.errors import as_api_error
from broker.network.request_tasks import RequestTasks
from broker.replication.control_orders import (
    ReplicaStop,
    RoleChange,
    is_legal,
    replica_stops,
    roles_response,
    stop_response,
)
from broker.replication.leadership import Leadership, Limits
from broker.replication.replica import Replica
from broker.replication.replica_fetchers import ReplicaFetchers
from broker.replication.replica_opening import ReplicaOpening
from broker.replication.replica_table import ReplicaTable
from broker.replication.stray_logs import StrayLogs
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH
from kafkawire.update_type import UpdateType
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import StorageError

OPENING_RETRY_S: Final = 1.0
"""Interval between checks whether log dirs have space again."""

log = structlog.get_logger(__name__)


class ReplicaRoles:
    """Assigns roles to the replicas in `table`."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        table: ReplicaTable,
        fence: ControlFence,
        logs: Logs,
        metadata: MetadataCache,
        fetchers: ReplicaFetchers,
        log_config_of: Callable[[str], LogConfig],
        config: ReplicationKeys,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
    ) -> None:
        self.queue = RequestTasks(loop, max_running=1)
        """Queue of the controllers' requests, which are handled one after the other."""
        self._broker_id = broker_id
        self._fence = fence
        self._table = table
        self._events = table.events
        self._logs = logs
        self._metadata = metadata
        self._fetchers = fetchers
        self._config = config
        self._loop = loop
        self._clock_ms = clock_ms
        self._opening = ReplicaOpening(
            table,
            logs,
            log_config_of=log_config_of,
            loop=loop,
            now_ms=now_ms,
            clock_ms=clock_ms,
        )
        self._retry_timer: asyncio.TimerHandle | None = None
        self.strays = StrayLogs(broker_id, table=table, logs=logs, metadata=metadata)
        metadata.on_change(self._on_metadata)

    async def stop(self) -> None:
        """Cancel the controllers' requests that are not done; keep all roles."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        await self.queue.stop()

    def on_registered(self, broker_epoch: int) -> None:
        """Adopt the epoch of a new registration, which fences earlier incarnations."""
        self._fence.broker_epoch = broker_epoch
        self.strays.on_registered()
        self._opening.forget_all()

    async def become_leader_or_follower(
        self,
        request: LeaderAndIsrRequest,
        changes: Iterable[RoleChange],
        version: int,
        connection: int = 0,
    ) -> LeaderAndIsrResponse:
        """Make the `changes` in `request`; one bad partition does not fail the others.

        Handlers call this through `queue`.
        """
        try:
            by_key = {change.topic_partition: change for change in changes}
            return await self._assign(request, by_key, version, connection)
        finally:
            self._retry_later()

    async def _assign(
        self,
        request: LeaderAndIsrRequest,
        changes: dict[TopicPartition, RoleChange],
        version: int,
        connection: int,
    ) -> LeaderAndIsrResponse:
        refusal = self._fence.refuse(request.controller_epoch, request.broker_epoch, connection)
        if refusal is not None:
            log.warning("leader_and_isr.refused", error=refusal.name)
            return LeaderAndIsrResponse(error_code=refusal)
        is_incremental = request.type == UpdateType.INCREMENTAL
        epoch = request.controller_epoch
        for partition in self.strays.find(changes, epoch, is_incremental=is_incremental):
            self._set_aside(partition)
        codes = {key: self._refuse(change) or ErrorCode.NONE for key, change in changes.items()}
        wanted = [change for key, change in changes.items() if codes[key] is ErrorCode.NONE]
        codes.update(await self._opening.open_all(wanted))
        accepted = [change for change in wanted if codes[change.topic_partition] is ErrorCode.NONE]
        self._assume(accepted)
        return roles_response(request, codes, version)

    async def stop_replicas(
        self, request: StopReplicaRequest, connection: int = 0
    ) -> StopReplicaResponse:
        """Stop the replicas in `request`, and delete them where requested.

        Handlers call this through `queue`.
        """
        refusal = self._fence.refuse(request.controller_epoch, request.broker_epoch, connection)
        if refusal is not None:
            log.warning("stop_replica.refused", error=refusal.name)
            return StopReplicaResponse(error_code=refusal)
        stops = list(replica_stops(request))
        codes = {stop.topic_partition: self._stop(stop) for stop in stops}
        gone = [
            stop.topic_partition
            for stop in stops
            if stop.deletes and codes[stop.topic_partition] is ErrorCode.NONE
        ]
        codes.update(self._delete(gone))
        return stop_response(codes)

    @property
    def is_waiting(self) -> bool:
        """Whether some role changes still wait for their logs."""
        return self._opening.is_waiting

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop serving a partition in any role, and keep its log; waiting requests fail."""
        self._opening.forget([topic_partition])
        self._fetchers.remove([topic_partition])
        replica = self._table.remove(topic_partition)
        if replica is not None:
            replica.resign()
            self._events.resigned(topic_partition)

    def on_directory_failed(self, path: Path) -> list[TopicPartition]:
        """Stop serving the partitions in the log dir at `path`, and return them."""
        lost = [each.topic_partition for each in self._logs.table.in_directory(path)]
        for partition in lost:
            self.remove(partition)
        self._table.set_offline(lost)
        return lost

    # Inside

    def _retry_later(self) -> None:
        """Schedule a retry of role changes that wait for disk space or descriptors."""
        if self.is_waiting and self._retry_timer is None:
            self._retry_timer = self._loop.call_later(OPENING_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.queue.run(self._open_waiting)

    async def _open_waiting(self) -> None:
        """Apply the waiting role changes whose logs can be created now."""
        try:
            self._assume(await self._opening.open_waiting())
        finally:
            self._retry_later()

    def _on_metadata(self) -> None:
        if self.strays.has_unclaimed:
            self.queue.run(self._set_aside_contradicted)

    async def _set_aside_contradicted(self) -> None:
        for partition in self.strays.find_contradicted():
            self._set_aside(partition)

    def _refuse(self, change: RoleChange) -> ErrorCode | None:
        replica = self._table.by_key.get(change.topic_partition)
        if replica is None and not is_legal(change.topic_partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if change.state.leader_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        refusal = refuse_leadership(
            None if replica is None else replica.leader_epoch,
            None if replica is None else replica.topic_id,
            change.state.leader_epoch,
            change.topic_id,
        )
        if refusal is not None:
            return refusal
        if self._broker_id not in change.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if change.state.leader == self._broker_id and self._broker_id not in change.state.isr:
            return ErrorCode.INVALID_REQUEST
        return None

    def _assume(self, changes: Iterable[RoleChange]) -> None:
        """Assume roles in one turn of the event loop, after their fetchers have stopped."""
        changes = [change for change in changes if change.topic_partition in self._table.by_key]
        self._fetchers.remove([change.topic_partition for change in changes])
        followed = []
        for change in changes:
            replica = self._table.by_key[change.topic_partition]
            if change.state.leader == self._broker_id:
                self._lead(replica, change)
            else:
                replica.follow(change.state.leader, change.state.leader_epoch)
                followed.append(replica)
                self._events.resigned(change.topic_partition)
        self._fetchers.add(followed)
        log.info("roles.assumed", led_count=len(changes) - len(followed), followed=len(followed))

    def _lead(self, replica: Replica, change: RoleChange) -> None:
        leadership = Leadership(
            self._broker_id,
            change.state,
            replicas=change.replicas,
            log_end_offset=replica.log.log_end_offset,
            high_watermark=replica.high_watermark,
            limits=Limits(
                min_insync_replicas=replica.log.config.min_insync_replicas,
                max_lag_ms=self._config.replica_lag_time_max_ms,
            ),
            live_epoch=self._live_epoch,
            now_ms=self._clock_ms(),
        )
        leader_epoch = change.state.leader_epoch
        if replica.leadership is not None and replica.may_have_missed_leader(leader_epoch):
            # Another broker may have led the partition in between. As a coordinator it may have
            # sent markers, in a later epoch, of decisions that only the log has. The
            # coordinators here load the partition again (ADR 0108). The replica leads on with its
            # log, and its producers wait on.
            self._events.resigned(replica.topic_partition)
        replica.lead(leadership)
        self._events.became_leader(replica.topic_partition, leader_epoch)

    def _live_epoch(self, broker_id: BrokerId) -> int | None:
        if broker_id == self._broker_id:
            return self._fence.broker_epoch
        # UpdateMetadata does not carry the epochs of other brokers.
        return UNKNOWN_BROKER_EPOCH if broker_id in self._metadata.image.brokers else None

    def _stop(self, stop: ReplicaStop) -> ErrorCode:
        partition = stop.topic_partition
        if not is_legal(partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._table.is_offline(partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self._table.by_key.get(partition)
        current = None if replica is None else replica.leader_epoch
        refusal = refuse_stop(current, stop.leader_epoch)
        if refusal is not None:
            return refusal
        self._opening.forget([partition])
        self._fetchers.remove([partition])
        if replica is not None:
            replica.resign()
            self._events.resigned(partition)
        return ErrorCode.NONE

    def _delete(self, partitions: list[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Delete logs; return the error code of each that may not be deleted."""
        for partition in partitions:
            self._table.remove(partition)
        opened = {partition for partition in partitions if self._logs.get(partition) is not None}
        try:
            self._logs.delete(*partitions)
        except (StorageError, OSError) as error:
            kept = {each.topic_partition for each in self._logs}
            left = [one for one in partitions if one in kept or one not in opened]
            log.error("log.not_deleted", partitions=len(left), error=str(error))
            # Only these: the controller repeats a failed deletion when this broker has restarted.
            return dict.fromkeys(left, as_api_error(error).code)
        return {}

    def _set_aside(self, partition: TopicPartition) -> None:
        self.remove(partition)
        try:
            self._logs.set_aside_as_stray(partition)
        except (StorageError, OSError) as error:
            log.error("log.not_set_aside", partition=str(partition), error=str(error))
