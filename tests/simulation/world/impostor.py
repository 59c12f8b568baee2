"""A client with requests of earlier times, of strangers, and of the future: all must be refused.

The network of a world repeats no request, so this client makes up the ones that a delayed or a
broken program would send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import ottla
from broker.replication.fetch_session import INITIAL_EPOCH, SESSIONLESS_EPOCH
from broker.replication.replica import Replica
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkawire.units import KIB
from ottla.client.errors import OttlaError
from ottla.client.network.connection_pool import Purpose
from tests.simulation.world.cluster import BrokerHost
from tests.simulation.world.workload import TOPIC, Client

PAUSE_S: Final = (0.0, 2.0)
STRANGER: Final = 99
"""Id of no broker."""
NAMES_UNTIL: Final = 12
"""Last version of Fetch with names of topics."""
COMMIT_VERSION: Final = 7


class Impostor(Client):
    """Sends requests that the brokers must refuse, and checks that they do."""

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            lies = (
                self._fetch_of_another_leadership,
                self._commit_of_a_past_generation,
                self._begin_session_of_a_stranger,
            )
            while not self.is_over:
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))
                host = self.loop.chance.choice(self.cluster.brokers)
                assert admin._cluster is not None
                connection = admin._cluster.ready_connection(BrokerId(host.number), Purpose.CONTROL)
                if connection is None or not host.is_up or not hasattr(host.program, "_replicas"):
                    continue
                try:
                    await self.loop.chance.choice(lies)(host, connection)
                except OttlaError:
                    self.promises.failed_count += 1

    async def _fetch_of_another_leadership(self, host: BrokerHost, connection: Any) -> None:
        led = self._led_by(host)
        if not led:
            return
        replica = self.loop.chance.choice(led)
        past = replica.leader_epoch - 1
        wanted = self.loop.chance.choice((past, replica.leader_epoch + 1000))
        if wanted < 0:
            return
        answer = await connection.request(
            self._fetch(replica, current_leader_epoch=wanted), FetchResponse, version=NAMES_UNTIL
        )
        for each in [one for topic in answer.responses for one in topic.partitions]:
            about = f"{host.name} serves {replica.topic_partition} to epoch {wanted}"
            assert each.error_code != ErrorCode.NONE, about

    async def _begin_session_of_a_stranger(self, host: BrokerHost, connection: Any) -> None:
        led = self._led_by(host)
        if not led:
            return
        request = self._fetch(self.loop.chance.choice(led), replica_id=STRANGER)
        answer = await connection.request(request, FetchResponse, version=NAMES_UNTIL)
        assert answer.session_id == 0, f"{host.name} keeps a session of a stranger"

    async def _commit_of_a_past_generation(self, host: BrokerHost, connection: Any) -> None:
        for group in self._groups_of(host):
            past = group.rebalance.generation_id - 1
            for member in list(group.members):
                if past < 0:
                    continue
                partition = OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=0, committed_metadata=None
                )
                request = OffsetCommitRequest(
                    group_id=group.group_id,
                    generation_id_or_member_epoch=past,
                    member_id=member.member_id,
                    topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
                )
                answer = await connection.request(
                    request, OffsetCommitResponse, version=COMMIT_VERSION
                )
                for each in [one for topic in answer.topics for one in topic.partitions]:
                    about = f"{host.name} takes a commit of generation {past}"
                    assert each.error_code != ErrorCode.NONE, about

    def _led_by(self, host: BrokerHost) -> list[Replica]:
        table = host.program._replicas.table
        return [each for each in table if each.leadership is not None]

    def _groups_of(self, host: BrokerHost) -> Iterator[Any]:
        registry = host.program._coordinators.groups.registry
        for number in registry.leaderships.active_partitions():
            yield from registry.in_partition(number)

    def _fetch(
        self, replica: Replica, *, current_leader_epoch: int = -1, replica_id: int = -1
    ) -> FetchRequest:
        partition = FetchPartition(
            partition=replica.topic_partition.partition,
            current_leader_epoch=current_leader_epoch,
            fetch_offset=replica.log.log_start_offset,
            partition_max_bytes=KIB,
        )
        topic = FetchTopic(topic=replica.topic_partition.topic, partitions=(partition,))
        is_session = replica_id >= 0
        return FetchRequest(
            replica_id=replica_id,
            min_bytes=0,
            max_bytes=KIB,
            session_epoch=INITIAL_EPOCH if is_session else SESSIONLESS_EPOCH,
            topics=(topic,),
        )
