"""What controllers order: who leads, who follows, who goes (edge).

Orders are obeyed one after the other, and all changes of one order happen in one turn of the loop,
when the logs that it needs are there (`replica_opening`).
Invariants: an order of an older controller, for an earlier life of this broker, or of an older
leadership changes nothing; a partition is copied from its leader or led, never both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.config_keys.replication import ReplicationKeys
from broker.errors import as_api_error
from broker.replication.control_fence import (
    UNKNOWN_BROKER_EPOCH,
    ControlFence,
    refuse_leadership,
    refuse_stop,
)
from broker.replication.control_orders import (
    RoleOrder,
    StopOrder,
    is_legal,
    role_orders,
    roles_answer,
    stop_answer,
    stop_orders,
)
from broker.replication.leadership import Leadership, Limits, Recorded
from broker.replication.replica import Replica
from broker.replication.replica_fetchers import ReplicaFetchers
from broker.replication.replica_opening import ReplicaOpening
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.update_type import UpdateType
from storage.config import LogConfig
from storage.directory import Logs
from storage.errors import StorageError

log = structlog.get_logger(__name__)


class LeadershipListener(Protocol):
    """Who must know what this broker leads: the coordinators of groups and transactions."""

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Called when this broker leads a partition, in another epoch than before."""

    def on_resign(self, topic_partition: TopicPartition) -> None:
        """Called when this broker does not lead it any more, or did not before, or holds none."""


class ReplicaRoles:
    """Gives the replicas in `table` their roles."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        table: ReplicaTable,
        logs: Logs,
        metadata: MetadataCache,
        fetchers: ReplicaFetchers,
        on_change: Callable[[TopicPartition], None],
        log_config_of: Callable[[str], LogConfig],
        config: ReplicationKeys,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        self.fence = ControlFence(UNKNOWN_BROKER_EPOCH)
        """What has been seen of controllers; UpdateMetadata goes by it, too."""
        self._broker_id = broker_id
        self._table = table
        self._logs = logs
        self._metadata = metadata
        self._fetchers = fetchers
        self._on_change = on_change
        self._config = config
        self._now_ms = now_ms
        self._opening = ReplicaOpening(
            table, logs, log_config_of=log_config_of, loop=loop, now_ms=now_ms
        )
        self._listeners: list[LeadershipListener] = []
        # Whether the next LeaderAndIsr is the first since a registration, which names all.
        self._expects_all = False
        # Partitions on disk that the first LeaderAndIsr of the registration did not name.
        self._unclaimed: set[TopicPartition] = set()

    def add_listener(self, listener: LeadershipListener) -> None:
        """Tell `listener` of every leadership that begins or ends here."""
        self._listeners.append(listener)

    def on_registered(self, broker_epoch: int) -> None:
        """Begin another life of this broker: orders for an earlier one are refused from now on."""
        self.fence.broker_epoch = broker_epoch
        self._expects_all = True
        self._opening.forget_all()

    async def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, version: int, connection: int
    ) -> LeaderAndIsrResponse:
        """Lead and follow what `request` says; one bad partition does not fail the others."""
        refusal = self.fence.refuse(request.controller_epoch, request.broker_epoch, connection)
        if refusal is not None:
            log.warning("leader_and_isr.refused", error=refusal.name)
            return LeaderAndIsrResponse(error_code=refusal)
        orders = {order.topic_partition: order for order in role_orders(request)}
        if self._expects_all and request.type != UpdateType.INCREMENTAL:
            self._expects_all = False
            self._unclaimed = {each.topic_partition for each in self._logs}
        self._unclaimed.difference_update(orders)
        self._set_strays_aside()
        for order in orders.values():
            self._set_former_aside(order)
        codes = {key: self._refuse(order) or ErrorCode.NONE for key, order in orders.items()}
        wanted = [order for key, order in orders.items() if codes[key] is ErrorCode.NONE]
        codes.update(await self._opening.open_all(wanted))
        accepted = [order for order in wanted if codes[order.topic_partition] is ErrorCode.NONE]
        self._assume(accepted)
        return roles_answer(request, codes, version)

    async def stop_replicas(
        self, request: StopReplicaRequest, version: int, connection: int
    ) -> StopReplicaResponse:
        """Stop, and delete where asked, what `request` says."""
        del version
        refusal = self.fence.refuse(request.controller_epoch, request.broker_epoch, connection)
        if refusal is not None:
            log.warning("stop_replica.refused", error=refusal.name)
            return StopReplicaResponse(error_code=refusal)
        orders = list(stop_orders(request))
        codes = {order.topic_partition: self._stop(order) for order in orders}
        gone = [
            order.topic_partition
            for order in orders
            if order.deletes and codes[order.topic_partition] is ErrorCode.NONE
        ]
        codes.update(dict.fromkeys(gone, self._delete(gone)))
        return stop_answer(codes)

    @property
    def is_waiting(self) -> bool:
        """Whether there are orders whose logs could not be made yet."""
        return self._opening.is_waiting

    async def open_waiting(self) -> None:
        """Obey the orders that waited for space or descriptors, if there are any now."""
        self._assume(await self._opening.open_waiting())

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop serving a partition, whatever its role; its log stays."""
        self._opening.forget([topic_partition])
        self._fetchers.remove([topic_partition])
        replica = self._table.remove(topic_partition)
        if replica is not None:
            replica.resign()
            self._resigned(topic_partition)

    def is_unclaimed(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition lies on disk that the controller did not name at the registration."""
        return topic_partition in self._unclaimed

    def on_directory_failed(self, path: Path) -> set[TopicPartition]:
        """Serve nothing in the log dir at `path` any more; return what that was."""
        lost = {each.topic_partition for each in self._logs.in_directory(path)}
        for partition in lost:
            self.remove(partition)
        self._table.set_offline(lost)
        return lost

    # Inside

    def _refuse(self, order: RoleOrder) -> ErrorCode | None:
        if not is_legal(order.topic_partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if order.leader_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        replica = self._table.by_key.get(order.topic_partition)
        refusal = refuse_leadership(
            None if replica is None else replica.leader_epoch,
            None if replica is None else replica.topic_id,
            order.leader_epoch,
            order.topic_id,
        )
        if refusal is not None:
            return refusal
        if self._broker_id not in order.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if order.leader == self._broker_id and self._broker_id not in order.isr:
            return ErrorCode.INVALID_REQUEST
        return None

    def _assume(self, orders: Iterable[RoleOrder]) -> None:
        """Take over the roles, all in one turn; first nobody is copied any more."""
        orders = [order for order in orders if order.topic_partition in self._table.by_key]
        self._fetchers.remove([order.topic_partition for order in orders])
        followed = []
        for order in orders:
            replica = self._table.by_key[order.topic_partition]
            if order.leader == self._broker_id:
                recorded = Recorded(
                    isr=order.isr,
                    leader_epoch=order.leader_epoch,
                    partition_epoch=order.partition_epoch,
                )
                self._lead(replica, recorded, order.replicas)
            else:
                replica.follow(order.leader, order.leader_epoch)
                followed.append(replica)
                self._resigned(order.topic_partition)
        self._fetchers.add(followed)
        log.info("roles.assumed", led_count=len(orders) - len(followed), followed=len(followed))

    def _lead(self, replica: Replica, recorded: Recorded, replicas: frozenset[BrokerId]) -> None:
        leadership = Leadership(
            self._broker_id,
            recorded,
            replicas=replicas,
            log_end_offset=replica.log.log_end_offset,
            high_watermark=replica.high_watermark,
            limits=Limits(
                min_insync_replicas=replica.log.config.min_insync_replicas,
                max_lag_ms=self._config.replica_lag_time_max_ms,
            ),
            live_epoch=self._live_epoch,
            now_ms=self._now_ms(),
        )
        replica.lead(leadership)
        self._on_change(replica.topic_partition)
        for listener in self._listeners:
            listener.on_become_leader(replica.topic_partition, recorded.leader_epoch)

    def _resigned(self, partition: TopicPartition) -> None:
        self._on_change(partition)
        for listener in self._listeners:
            listener.on_resign(partition)

    def _live_epoch(self, broker_id: BrokerId) -> int | None:
        if broker_id == self._broker_id:
            return self.fence.broker_epoch
        # UpdateMetadata does not tell the epochs of other brokers.
        return UNKNOWN_BROKER_EPOCH if broker_id in self._metadata.image.brokers else None

    def _stop(self, order: StopOrder) -> ErrorCode:
        partition = order.topic_partition
        if not is_legal(partition):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._table.is_offline(partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self._table.by_key.get(partition)
        current = None if replica is None else replica.leader_epoch
        refusal = refuse_stop(current, order.leader_epoch)
        if refusal is not None:
            return refusal
        self._opening.forget([partition])
        self._fetchers.remove([partition])
        if replica is not None:
            replica.resign()
            self._resigned(partition)
        return ErrorCode.NONE

    def _delete(self, partitions: list[TopicPartition]) -> ErrorCode:
        for partition in partitions:
            self._table.remove(partition)
        try:
            self._logs.delete(*partitions)
        except (StorageError, OSError) as error:
            log.error("log.not_deleted", partitions=len(partitions), error=str(error))
            return as_api_error(error).code
        return ErrorCode.NONE

    def _set_strays_aside(self) -> None:
        """Put away what the controller has not named, and the metadata say is not ours any more.

        A partition that the metadata do not know stays where it is: its nodes may be unreadable for
        a while, or its deletion may have waited for this broker and be asked for next. A topic that
        is made again under its name has another id, which sets it aside then.
        """
        for partition in sorted(self._unclaimed):
            if self._logs.get(partition) is None:
                self._unclaimed.discard(partition)
            elif self._is_stray(partition):
                self._unclaimed.discard(partition)
                self._set_aside(partition)

    def _is_stray(self, partition: TopicPartition) -> bool:
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None:
            return False
        local = self._logs.get(partition)
        if (
            local is not None
            and local.topic_id is not None
            and topic.topic_id not in (ZERO_TOPIC_ID, local.topic_id)
        ):
            return True
        state = topic.partitions.get(partition.partition)
        return state is not None and self._broker_id not in state.replicas

    def _set_former_aside(self, order: RoleOrder) -> None:
        """Put away what is left of a topic that is gone, if one of its name comes in its place.

        A controller that dies after it has moved a replica away may not have had it deleted, and
        nobody else knows of it. Kafka refuses the new one until the broker starts again. As long as
        the metadata know the old topic, so do we.
        """
        partition = order.topic_partition
        replica = self._table.by_key.get(partition)
        if replica is None or ZERO_TOPIC_ID in (replica.topic_id, order.topic_id):
            return
        current = self._metadata.image.topics.get(partition.topic)
        is_current = current is not None and current.topic_id == replica.topic_id
        if replica.topic_id != order.topic_id and not is_current:
            self._set_aside(partition)

    def _set_aside(self, partition: TopicPartition) -> None:
        self.remove(partition)
        try:
            self._logs.set_aside_as_stray(partition)
        except (StorageError, OSError) as error:
            log.error("log.not_set_aside", partition=str(partition), error=str(error))
