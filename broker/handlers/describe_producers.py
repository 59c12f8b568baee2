"""DescribeProducers: the remembered producers of a partition (edge)."""

from __future__ import annotations

from typing import Final

from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError
from kafkawire.ids import TopicPartition
from kafkawire.messages.describe_producers import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseTopic,
    ProducerDescription,
)
from storage.producers.producer_entry import ProducerEntry

APIS: Final[Apis] = {
    ApiKey.DESCRIBE_PRODUCERS: lambda parts: DescribeProducersHandler(parts.replicas).handle,
}


class DescribeProducersHandler:
    """Describes the producers of partitions with an online replica on this broker."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, request: Request, message: DescribeProducersRequest) -> Reply:
        """Respond with a result for each partition; a bad partition does not fail the others."""
        del request
        topics = [
            DescribeProducersResponseTopic(
                name=topic.name,
                partitions=[
                    self._describe(TopicPartition(topic.name, index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics
        ]
        return Reply(DescribeProducersResponse(topics=topics))

    def _describe(self, partition: TopicPartition) -> DescribeProducersPartition:
        index = partition.partition
        try:
            log = self._replicas.replica(partition).log
        except ApiError as error:
            text = error.message or error.code.text
            return DescribeProducersPartition(
                partition_index=index, error_code=error.code, error_message=text
            )
        return DescribeProducersPartition(
            partition_index=index, active_producers=[_description(each) for each in log.producers]
        )


def _description(entry: ProducerEntry) -> ProducerDescription:
    last = entry.last_batch
    return ProducerDescription(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=last.last_sequence if last else -1,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
