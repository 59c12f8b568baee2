"""The fake cluster's response to each request. Pure except for the logs that they change."""

from collections.abc import Callable
from typing import Any

from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkawire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkawire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.integration.client.fake_admin_answer import AdminResponder
from tests.integration.client.fake_log import FakePartition
from tests.integration.client.fake_transactions import TransactionResponder


class Responder(AdminResponder):
    """Responds for one broker."""

    def respond(self, api_key: ApiKey, message: Any) -> Any:
        """Carry out `message` and return the response message."""
        return self._methods()[api_key](message)

    def _methods(self) -> dict[ApiKey, Callable[[Any], Any]]:
        transactions = TransactionResponder(self.broker_id, self.logs, self.addresses, self.refusal)
        return {
            ApiKey.API_VERSIONS: self.api_versions,
            ApiKey.METADATA: self.metadata,
            ApiKey.PRODUCE: self.produce,
            ApiKey.FETCH: self.fetch,
            ApiKey.FIND_COORDINATOR: transactions.find_coordinator,
            ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
            ApiKey.END_TXN: transactions.end_txn,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.epoch_ends,
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DELETE_RECORDS: self.delete_records,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.WRITE_TXN_MARKERS: self.write_txn_markers,
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter_configs,
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
            ApiKey.ELECT_LEADERS: self.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_reassignments,
        }

    def api_versions(self, _message: object) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=self.refusal or ErrorCode.NONE,
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ],
        )

    def metadata(self, message: MetadataRequest) -> MetadataResponse:
        wanted = list(self.logs.topics)
        if message.topics is not None:
            wanted = [topic.name or "" for topic in message.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=broker_id, host=host, port=port)
                for broker_id, (host, port) in self.addresses.items()
            ],
            cluster_id="fake",
            controller_id=self.controller_id,
            topics=[self._topic(name) for name in wanted],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        topic = self.logs.topics.get(name)
        if self.refusal is not None:
            return MetadataResponseTopic(name=name, error_code=self.refusal)
        if topic is None:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            partitions=[
                MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if held.leader < 0 else 0,
                    partition_index=index,
                    leader_id=held.leader,
                    leader_epoch=held.leader_epoch,
                    replica_nodes=_in_sync(held),
                    isr_nodes=_in_sync(held),
                )
                for index, held in enumerate(topic.partitions)
            ],
        )

    def produce(self, message: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        self._append(topic.name, data) for data in topic.partition_data
                    ],
                )
                for topic in message.topic_data
            ]
        )

    def _append(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        found = self._find(topic, data.index)
        if isinstance(found, ErrorCode):
            refused = PartitionProduceResponse(
                index=data.index, error_code=found, base_offset=-1, error_message="as scripted"
            )
            if found == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                held = self.logs.topics[topic].partitions[data.index]
                if held.is_leader_named:
                    refused.current_leader = LeaderIdAndEpoch(
                        leader_id=held.leader, leader_epoch=held.leader_epoch
                    )
            return refused
        assert isinstance(data.records, memoryview)
        written = found.produce(data.records)
        if isinstance(written, ErrorCode):
            return PartitionProduceResponse(index=data.index, error_code=written, base_offset=-1)
        return PartitionProduceResponse(index=data.index, base_offset=written)

    def fetch(self, message: FetchRequest) -> FetchResponse:
        room = message.max_bytes
        responses = []
        for topic in message.topics:
            name = topic.topic or self.logs.name_of(topic.topic_id)
            partitions = []
            for requested in topic.partitions:
                if name is None:
                    data = _no_data(requested, ErrorCode.UNKNOWN_TOPIC_ID)
                else:
                    data = self._read(name, requested, room, message.isolation_level)
                room -= len(data.records) if isinstance(data.records, bytes) else 0
                partitions.append(data)
            responses.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return FetchResponse(responses=responses)

    def _read(
        self, topic: str, requested: FetchPartition, room: int, isolation_level: int
    ) -> PartitionData:
        found = self._find(topic, requested.partition)
        if isinstance(found, ErrorCode):
            return _no_data(requested, found)
        if (
            requested.current_leader_epoch >= 0
            and requested.current_leader_epoch < found.leader_epoch
        ):
            return _no_data(requested, ErrorCode.FENCED_LEADER_EPOCH)
        if requested.current_leader_epoch > found.leader_epoch:
            return _no_data(requested, ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not found.log_start_offset <= requested.fetch_offset <= found.next_offset:
            return _no_data(requested, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.broker_id == found.leader and found.in_sync_follower is not None:
            return PartitionData(
                partition_index=requested.partition,
                high_watermark=found.next_offset,
                preferred_read_replica=found.in_sync_follower,
                records=b"",
            )
        limit = min(room, requested.partition_max_bytes)
        return PartitionData(
            partition_index=requested.partition,
            high_watermark=found.next_offset,
            aborted_transactions=found.aborted if isolation_level == 1 else None,
            records=found.read(requested.fetch_offset, limit) if limit > 0 else b"",
        )

    def epoch_ends(self, message: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        self._epoch_end(topic.topic, requested) for requested in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )

    def _epoch_end(self, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
        found = self._find(topic, requested.partition)
        if isinstance(found, ErrorCode):
            return EpochEndOffset(error_code=found, partition=requested.partition)
        epoch, end_offset = found.end_of(requested.leader_epoch)
        return EpochEndOffset(
            error_code=ErrorCode.NONE,
            partition=requested.partition,
            leader_epoch=epoch,
            end_offset=end_offset,
        )

    def list_offsets(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._offset(topic.name, requested) for requested in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )

    def _offset(self, topic: str, requested: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        found = self._find(topic, requested.partition_index)
        if isinstance(found, ErrorCode):
            return ListOffsetsPartitionResponse(
                partition_index=requested.partition_index, error_code=found
            )
        offset, timestamp = found.offset_for(requested.timestamp)
        return ListOffsetsPartitionResponse(
            partition_index=requested.partition_index,
            offset=offset,
            timestamp=timestamp,
            leader_epoch=found.leader_epoch,
        )


def has_records(response: FetchResponse) -> bool:
    """Whether a fetch need not wait: it has records or an error."""
    return any(
        data.records or data.error_code != ErrorCode.NONE or data.preferred_read_replica >= 0
        for topic in response.responses
        for data in topic.partitions
    )


def _in_sync(held: FakePartition) -> list[int]:
    return [held.leader] if held.in_sync_follower is None else [held.leader, held.in_sync_follower]


def default_versions() -> dict[ApiKey, tuple[int, int]]:
    """Return the versions that Ottla's broker advertises, and further ones that tests need."""
    versions = {key: api.advertised for key, api in APIS.items() if api.advertised is not None}
    for key in (
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
    ):
        versions[key] = APIS[key].decodable
    return versions


def _no_data(requested: FetchPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=requested.partition, error_code=code, high_watermark=-1, records=b""
    )
