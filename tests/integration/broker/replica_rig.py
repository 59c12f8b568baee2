"""The replicas of several brokers in one process, over real sockets (edge).

The test plays the controller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Final

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import Endpoint, LiveBroker, MetadataCache
from broker.cluster.peer import Peer
from broker.config.listener import Listener
from broker.config.replication_keys import ReplicationKeys
from broker.handlers.api_versions import ApiVersionsHandler
from broker.handlers.control_requests import LeaderAndIsrHandler, StopReplicaHandler
from broker.handlers.delete_records import DeleteRecordsHandler
from broker.handlers.fetch import FetchHandler
from broker.handlers.follower_fetch import FollowerFetchHandler
from broker.handlers.offset_lookup import ListOffsetsHandler, OffsetForLeaderEpochHandler
from broker.network.limits import NetworkLimits
from broker.network.request_channel import RequestChannel
from broker.network.request_tasks import RequestTasks
from broker.network.router import Handler, Router
from broker.network.socket_server import SocketServer
from broker.purgatory import Purgatory
from broker.replication.isr.isr_proposals import IsrProposal, ProposalResult
from broker.replication.replica import Replica
from broker.replication.replica_manager import ReplicaManager
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kafkawire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kafkawire.records import BatchBuilder
from kafkawire.update_type import UpdateType
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.metadata import set_brokers
from tests.unit.broker.replicas import make_produce_handler

LISTENER: Final = "PLAINTEXT"
TOPIC: Final = "orders"
TOPIC_ID: Final = TopicId(int=77)
PARTITION: Final = TopicPartition(TOPIC, 0)
CONTROLLER: Final = BrokerId(9)
MAX_SESSIONS: Final = 100
MAX_BYTES: Final = 1 << 30
PRODUCE_VERSION: Final = 9
LEADER_AND_ISR_VERSION: Final = 7


def now_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


async def learn_nothing(topics: Set[str]) -> None:
    """Read no configs: the rig's topics have known configs."""
    del topics


class Recorder:
    """Accepts every in-sync set, unless the test delays or refuses it."""

    def __init__(self) -> None:
        self.asked: list[IsrProposal] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refusals: list[ErrorCode | OSError] = []

    async def record(self, proposals: Sequence[IsrProposal]) -> Sequence[ProposalResult]:
        """Return the results chosen by the test."""
        self.asked += proposals
        await self.may_answer.wait()
        if self.refusals:
            refusal = self.refusals.pop(0)
            if isinstance(refusal, OSError):
                raise refusal
            return [refusal for _ in proposals]
        return [
            LeaderAndIsr(
                leader=BrokerId(1),
                isr=tuple(one for one, _ in each.proposal.isr),
                controller_epoch=1,
                leader_epoch=each.proposal.leader_epoch,
                partition_epoch=each.proposal.partition_epoch + 1,
            )
            for each in proposals
        ]


class RigBroker:
    """The parts of a broker that take part in replication."""

    def __init__(
        self,
        broker_id: BrokerId,
        directory: Path,
        endpoints: dict[BrokerId, Endpoint],
        keys: ReplicationKeys,
        log_config: LogConfig,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.broker_id = broker_id
        self.endpoints = endpoints
        self.recorder = Recorder()
        self.metadata = MetadataCache()
        self.purgatory: Purgatory[TopicPartition] = Purgatory(loop)
        self.directory = directory / f"broker-{broker_id}"
        self.logs = Logs.open(
            [self.directory],
            config_of=lambda _topic: log_config,
            now_ms=now_ms(),
        )
        self.replicas = ReplicaManager(
            broker_id=broker_id,
            logs=self.logs,
            metadata=self.metadata,
            fence=ControlFence(),
            loop=loop,
            now_ms=now_ms,
            clock_ms=now_ms,
            log_config_of=lambda _topic: log_config,
            endpoint_of=endpoints.get,
            isr_recorder=self.recorder,
            config=keys,
        )
        self.replicas.events.on_change(self.purgatory.on_change)
        self.router = Router(
            {
                ApiKey.API_VERSIONS: lambda: ApiVersionsHandler(self.router.served).handle,
                ApiKey.PRODUCE: lambda: (
                    make_produce_handler(
                        self.replicas, self.purgatory, RequestTasks(loop), now_ms=now_ms
                    ).handle
                ),
                ApiKey.FETCH: self._fetch,
                ApiKey.DELETE_RECORDS: lambda: (
                    DeleteRecordsHandler(self.replicas, self.purgatory, RequestTasks(loop)).handle
                ),
                ApiKey.LIST_OFFSETS: lambda: (
                    ListOffsetsHandler(RequestTasks(loop), self.replicas, now_ms).handle
                ),
                ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda: (
                    OffsetForLeaderEpochHandler(self.replicas).handle
                ),
                ApiKey.LEADER_AND_ISR: lambda: (
                    LeaderAndIsrHandler(self.replicas.roles, self.logs, learn_nothing).handle
                ),
                ApiKey.STOP_REPLICA: lambda: StopReplicaHandler(self.replicas.roles).handle,
            }
        )
        limits = NetworkLimits()
        channel = RequestChannel(loop, self.router.handle, limits)
        self.server = SocketServer([Listener(LISTENER, "127.0.0.1", 0)], limits, channel)
        self.peer: Peer | None = None
        self.followers: FollowerFetchHandler | None = None

    def _fetch(self) -> Handler:
        followers = self.followers = FollowerFetchHandler(
            self.replicas,
            self.purgatory,
            loop=asyncio.get_running_loop(),
            max_sessions=MAX_SESSIONS,
            max_bytes=MAX_BYTES,
            clock_ms=now_ms,
        )
        return FetchHandler(self.replicas, self.purgatory, MAX_BYTES, followers).handle

    async def start(self) -> None:
        """Listen, and publish the endpoint to the other brokers."""
        await self.server.start()
        host, port = self.server.bound_addresses[LISTENER]
        self.endpoints[self.broker_id] = Endpoint(host, port)
        self.peer = Peer(
            self.endpoints[self.broker_id], loop=asyncio.get_running_loop(), client_id="test"
        )
        self.replicas.start()

    async def stop(self) -> None:
        """Stop all parts, and keep the files on disk."""
        self.endpoints.pop(self.broker_id, None)
        await self.replicas.stop()
        if self.peer is not None:
            await self.peer.close()
        self.server.stop_accepting()
        self.purgatory.close()
        await self.server.close()
        self.logs.checkpoints.write_high_watermarks(self.replicas.high_watermarks())
        self.logs.close()

    @property
    def replica(self) -> Replica:
        """Its replica of the one partition."""
        return next(each for each in self.replicas if each.topic_partition == PARTITION)

    def replica_of(self, index: int) -> Replica:
        """Its replica of a partition of the one topic."""
        wanted = TopicPartition(TOPIC, index)
        return next(each for each in self.replicas if each.topic_partition == wanted)

    async def ask(self, message: object, version: int | None = None) -> object:
        """Send a request to this broker, as a client or a controller."""
        assert self.peer is not None
        answer: object = await self.peer.request(message, version=version)
        return answer

    async def produce(self, *values: bytes, acks: int = -1, index: int = 0) -> tuple[int, int]:
        """Append one batch; return the error and the base offset."""
        data = PartitionProduceData(index=index, records=batch(*values))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic])
        response = await self.ask(request, PRODUCE_VERSION)
        assert isinstance(response, ProduceResponse)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    async def delete_records(self, offset: int, timeout_ms: int = 10_000) -> tuple[int, int]:
        """Delete the records below `offset`; return the error and the low watermark."""
        wanted = DeleteRecordsTopic(
            name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms)
        response = await self.ask(request)
        assert isinstance(response, DeleteRecordsResponse)
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    def records(self, end_offset: int | None = None) -> bytes:
        """Return the bytes of its log, up to an offset."""
        local = self.replica.log
        end = Offset(local.log_end_offset if end_offset is None else end_offset)
        data = b""
        offset = local.log_start_offset
        while offset < end:
            region = local.read(offset, 1 << 30, end_offset=end, min_one_batch=True)
            with region.file.path.open("rb") as file:
                file.seek(region.position)
                data += file.read(region.size_bytes)
            offset = end
        return data


class Rig:
    """A cluster of `RigBroker`s."""

    def __init__(
        self, directory: Path, keys: ReplicationKeys, log_config: LogConfig | None = None
    ) -> None:
        self._directory = directory
        self._keys = keys
        self._log_config = log_config or LogConfig()
        self._endpoints: dict[BrokerId, Endpoint] = {}
        self.epoch = 0
        self.brokers: dict[int, RigBroker] = {}
        self.topic_id = TOPIC_ID

    async def start(self, *broker_ids: int) -> None:
        """Start or restart brokers."""
        for broker_id in broker_ids:
            broker = RigBroker(
                BrokerId(broker_id),
                self._directory,
                self._endpoints,
                self._keys,
                self._log_config,
            )
            await broker.start()
            self.brokers[broker_id] = broker
        self.send_metadata()

    async def stop(self, *broker_ids: int) -> None:
        """Stop the given brokers, or all."""
        for broker_id in broker_ids or list(self.brokers):
            await self.brokers.pop(broker_id).stop()
        self.send_metadata()

    def register(self, broker_id: int) -> None:
        """Register a broker that the test plays itself."""
        self._endpoints[BrokerId(broker_id)] = Endpoint("127.0.0.1", 0)
        self.send_metadata()

    def send_metadata(self) -> None:
        """Send the live brokers to all brokers."""
        live = [
            LiveBroker(broker_id=one, endpoints={LISTENER: self._endpoints[one]})
            for one in self._endpoints
        ]
        for broker in self.brokers.values():
            set_brokers(broker.metadata, live, CONTROLLER)
            broker.replicas.on_metadata_changed()

    async def set_leader(
        self,
        leader: int,
        isr: Sequence[int],
        *,
        replicas: Sequence[int] = (1, 2, 3),
        partitions: Sequence[int] = (0,),
        to: Sequence[int] | None = None,
        controller_epoch: int = 1,
        broker_epoch: int = -1,
        is_repeated: bool = False,
        kind: UpdateType = UpdateType.UNKNOWN,
        topic_name: str = TOPIC,
    ) -> list[LeaderAndIsrResponse]:
        """Send LeaderAndIsr to the replicas, in a new epoch or, if repeated, in the last one."""
        self.epoch += not is_repeated
        epoch = self.epoch
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=controller_epoch,
                leader=leader,
                leader_epoch=LeaderEpoch(epoch),
                isr=list(isr),
                partition_epoch=epoch,
                replicas=list(replicas),
                is_new=True,
            )
            for index in partitions
        ]
        topic = LeaderAndIsrTopicState(
            topic_name=topic_name, topic_id=self.topic_id, partition_states=states
        )
        request = LeaderAndIsrRequest(
            controller_id=CONTROLLER,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type=kind,
            topic_states=[topic],
        )
        answers = []
        for broker_id in replicas if to is None else to:
            if broker_id in self.brokers:
                answer = await self.brokers[broker_id].ask(request, LEADER_AND_ISR_VERSION)
                assert isinstance(answer, LeaderAndIsrResponse)
                answers.append(answer)
        return answers

    async def stop_replica(
        self,
        broker_id: int,
        *,
        deletes: bool,
        leader_epoch: int | None = None,
        index: int = 0,
        topic_name: str = TOPIC,
    ) -> ErrorCode:
        """Send StopReplica to a broker; return the error code of its response."""
        state = StopReplicaPartitionState(
            partition_index=index,
            leader_epoch=self.epoch if leader_epoch is None else leader_epoch,
            delete_partition=deletes,
        )
        topic = StopReplicaTopicState(topic_name=topic_name, partition_states=[state])
        request = StopReplicaRequest(
            controller_id=CONTROLLER, controller_epoch=1, topic_states=[topic]
        )
        response = await self.brokers[broker_id].ask(request)
        assert isinstance(response, StopReplicaResponse)
        return ErrorCode(response.error_code or response.partition_errors[0].error_code)


def batch(*values: bytes) -> bytes:
    """Return one record batch."""
    builder = BatchBuilder()
    for value in values:
        builder.append(now_ms(), b"key", value)
    return bytes(builder.build())
