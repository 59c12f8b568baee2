"""The fake cluster's responses to admin requests. Pure except for the logs that they change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafkawire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkawire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkawire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkawire.messages.group_admin import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.integration.client.fake_log import FakePartition
from tests.integration.client.fake_replica_answer import ReplicaResponder

DELETE: Final = 1


@dataclass
class AdminResponder(ReplicaResponder):
    """Responds for one broker; `refusal` is the code of a scripted fault for every partition."""

    addresses: Mapping[int, tuple[str, int]]
    versions: Mapping[ApiKey, tuple[int, int]]
    refusal: ErrorCode | None = None

    def _find(self, topic: str, partition: int) -> FakePartition | ErrorCode:
        if self.refusal is not None:
            return self.refusal
        return self.logs.find(TopicPartition(topic, partition), self.broker_id)

    def _change_error(self, is_wrong: bool, code: ErrorCode) -> ErrorCode:
        if self.refusal is not None:
            return self.refusal
        if self.broker_id != self.controller_id:
            return ErrorCode.NOT_CONTROLLER
        return code if is_wrong else ErrorCode.NONE

    def create_topics(self, message: CreateTopicsRequest) -> CreateTopicsResponse:
        results = []
        for topic in message.topics:
            code = self._change_error(
                topic.name in self.logs.topics, ErrorCode.TOPIC_ALREADY_EXISTS
            )
            if code == ErrorCode.NONE and not message.validate_only:
                count = max(topic.num_partitions, len(topic.assignments), 1)
                self.logs.create(topic.name, [self.broker_id] * count)
                self.logs.topics[topic.name].configs = {
                    config.name: config.value or "" for config in topic.configs
                }
            results.append(CreatableTopicResult(name=topic.name, error_code=code))
        return CreateTopicsResponse(topics=results)

    def delete_topics(self, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [state.name or "" for state in message.topics] or list(message.topic_names)
        results = []
        for name in names:
            is_unknown = name not in self.logs.topics
            code = self._change_error(is_unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code == ErrorCode.NONE:
                del self.logs.topics[name]
            results.append(DeletableTopicResult(name=name, error_code=code))
        return DeleteTopicsResponse(responses=results)

    def create_partitions(self, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
        results = []
        for topic in message.topics:
            held = self.logs.topics[topic.name].partitions
            code = self._change_error(topic.count <= len(held), ErrorCode.INVALID_PARTITIONS)
            if code == ErrorCode.NONE:
                held += [FakePartition(self.broker_id) for _ in range(topic.count - len(held))]
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code))
        return CreatePartitionsResponse(results=results)

    def delete_records(self, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
        topics = []
        for topic in message.topics:
            results = []
            for requested in topic.partitions:
                found = self._find(topic.name, requested.partition_index)
                result = DeleteRecordsPartitionResult(partition_index=requested.partition_index)
                if isinstance(found, ErrorCode):
                    result.error_code = found
                else:
                    end = found.next_offset
                    found.log_start_offset = end if requested.offset == -1 else requested.offset
                    result.low_watermark = found.log_start_offset
                results.append(result)
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        return DeleteRecordsResponse(topics=topics)

    def list_groups(self, _message: ListGroupsRequest) -> ListGroupsResponse:
        group = ListedGroup(group_id=f"at-{self.broker_id}", protocol_type="consumer")
        return ListGroupsResponse(groups=[group])

    def write_txn_markers(self, message: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        rows = []
        for marker in message.markers:
            topics = []
            for topic in marker.topics:
                codes = {}
                for number in topic.partition_indexes:
                    found = self._find(topic.name, number)
                    codes[number] = found if isinstance(found, ErrorCode) else ErrorCode.NONE
                partitions = [
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                    for number, code in codes.items()
                ]
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            rows.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=rows)

    def describe_configs(self, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = []
        for resource in message.resources:
            topic = self.logs.topics.get(resource.resource_name)
            configs = {"broker.id": str(self.broker_id)} if topic is None else topic.configs
            results.append(
                DescribeConfigsResult(
                    error_code=self.refusal or ErrorCode.NONE,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[
                        DescribeConfigsResourceResult(name=name, value=value, config_source=1)
                        for name, value in configs.items()
                        if resource.configuration_keys is None
                        or name in resource.configuration_keys
                    ],
                )
            )
        return DescribeConfigsResponse(results=results)

    def alter_configs(
        self, message: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        for resource in message.resources:
            configs = self.logs.topics[resource.resource_name].configs
            for config in resource.configs:
                if config.config_operation == DELETE:
                    configs.pop(config.name, None)
                else:
                    configs[config.name] = config.value or ""
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=self.refusal or ErrorCode.NONE,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in message.resources
            ]
        )

    def describe_log_dirs(self, _message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        topics = [
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(
                        partition_index=index, partition_size=sum(map(len, held.batches))
                    )
                    for index, held in enumerate(topic.partitions)
                    if held.leader == self.broker_id
                ],
            )
            for name, topic in self.logs.topics.items()
        ]
        return DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    error_code=self.refusal or ErrorCode.NONE,
                    log_dir=f"/logs-{self.broker_id}",
                    topics=topics,
                ),
                *(
                    DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
                    for path in self.logs.failed_log_dirs
                ),
            ]
        )
