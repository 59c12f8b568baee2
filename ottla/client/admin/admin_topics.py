"""Creates, deletes and describes topics (edge)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kafkawire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_topics import (
    TOPICS_SINCE,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.client.admin.admin_request import (
    change,
    change_parts,
    error_or_none,
    raise_first,
    raise_refused,
    read,
)
from ottla.client.admin_model import NewTopic, TopicDescription
from ottla.client.argument import MIN_INT32, require_mapping, require_topic, require_whole
from ottla.client.cluster_metadata import ClusterMetadata, TopicMetadata, merge
from ottla.client.network.cluster import Cluster
from ottla.client.request_parts import parts

NUMBERS_FROM_ASSIGNMENT: Final = -1
MIN_INT16: Final = -(2**15)
MAX_INT16: Final = 2**15 - 1
MAX_ELEMENTS: Final = 8_000
"""Brokers of Ottla refuse a request with more than 10,000 topics, replicas and configs, and, like
Kafka 4, one for more than 10,000 partitions."""


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
) -> None:
    """Create topics, or with `validate_only` check that they could be created.

    Raises:
        BrokerError: the first refusal, with the others as notes; the other topics were created.
    """
    creatable = [_creatable(topic) for topic in topics]

    async def create(part: list[CreatableTopic]) -> None:
        request = CreateTopicsRequest(
            topics=part, timeout_ms=timeout_ms, validate_only=validate_only
        )

        async def attempt() -> None:
            response = await cluster.request_controller(request, CreateTopicsResponse)
            raise_refused(
                (f"topic {topic.name}" for topic in part),
                ((f"topic {it.name}", it.error_code, it.error_message) for it in response.topics),
            )

        await change(cluster, attempt, timeout_ms / 1000)

    await change_parts(_requests(creatable), create)


async def delete_topics(cluster: Cluster, names: Sequence[str], timeout_ms: int) -> None:
    """Delete topics with all their records.

    Raises:
        BrokerError: the first refusal, with the others as notes; the other topics were deleted.
    """

    async def delete(part: list[str]) -> None:
        def request(version: int) -> DeleteTopicsRequest:
            if version < TOPICS_SINCE:
                return DeleteTopicsRequest(topic_names=part, timeout_ms=timeout_ms)
            states = [DeleteTopicState(name=name) for name in part]
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

        async def attempt() -> None:
            response = await cluster.request_controller(request, DeleteTopicsResponse)
            raise_refused(
                (f"topic {name}" for name in part),
                (
                    (f"topic {it.name}", it.error_code, it.error_message)
                    for it in response.responses
                ),
            )

        await change(cluster, attempt, timeout_ms / 1000)

    await change_parts(parts(names), delete)


async def create_partitions(cluster: Cluster, counts: Mapping[str, int], timeout_ms: int) -> None:
    """Raise topics to the total numbers of partitions in `counts`.

    Raises:
        BrokerError: the first refusal, with the others as notes; the other topics were changed.
    """
    require_mapping("counts", counts)
    for name, count in counts.items():
        require_topic(name)
        require_whole("a number of partitions", count, MIN_INT32)

    async def create(part: list[str]) -> None:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=counts[name], assignments=None)
                for name in part
            ],
            timeout_ms=timeout_ms,
        )

        async def attempt() -> None:
            response = await cluster.request_controller(request, CreatePartitionsResponse)
            raise_refused(
                (f"topic {name}" for name in part),
                ((f"topic {it.name}", it.error_code, it.error_message) for it in response.results),
            )

        await change(cluster, attempt, timeout_ms / 1000)

    await change_parts(parts(counts), create)


async def describe_all(cluster: Cluster, timeout_s: float) -> ClusterMetadata:
    """Return the metadata of the cluster with all of its topics."""
    return await read(cluster, lambda: _metadata(cluster, None), timeout_s)


async def describe_nothing(cluster: Cluster, timeout_s: float) -> ClusterMetadata:
    """Return the metadata of the cluster without topics, which is cheap."""
    return await read(cluster, lambda: _metadata(cluster, ()), timeout_s)


async def describe_topics(
    cluster: Cluster, names: Sequence[str], timeout_s: float
) -> dict[str, TopicDescription]:
    """Return the topics named in `names` with their partitions.

    Raises:
        UnknownTopicError: one of them does not exist.
    """

    async def attempt() -> dict[str, TopicDescription]:
        metadata = await _metadata(cluster, names)
        raise_first(
            error_or_none(_error_of(metadata.topics.get(name)), f"topic {name}") for name in names
        )
        return {name: _description(metadata.topics[name]) for name in names}

    return await read(cluster, attempt, timeout_s)


async def describe_all_topics(cluster: Cluster, timeout_s: float) -> dict[str, TopicDescription]:
    """Return all topics by name, internal ones included."""
    metadata = await describe_all(cluster, timeout_s)
    return {name: _description(topic) for name, topic in sorted(metadata.topics.items())}


async def _metadata(cluster: Cluster, names: Sequence[str] | None) -> ClusterMetadata:
    requests: list[list[str] | None] = [None]
    if names is not None:
        # Without names one request remains, for the brokers.
        requests = [*parts(names)] or [[]]
    found = ClusterMetadata()
    for part in requests:
        wanted = None if part is None else [MetadataRequestTopic(name=name) for name in part]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await cluster.request_any(request, MetadataResponse, may_repeat=True)
        found = merge(found, response, None)
    return found


def _error_of(topic: TopicMetadata | None) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # A topic is described even if its partitions have no leader now.
    return ErrorCode.NONE if topic.partitions else topic.error


def _description(topic: TopicMetadata) -> TopicDescription:
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(topic.partitions[number] for number in sorted(topic.partitions)),
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    # The ranges of numbers are the broker's to judge.
    require_whole("partitions", topic.partitions, MIN_INT32)
    require_whole("replication_factor", topic.replication_factor, MIN_INT16, MAX_INT16)
    for partition, brokers in (topic.assignment or {}).items():
        require_whole("a partition of the assignment", partition, MIN_INT32)
        for broker in brokers:
            require_whole("a broker of the assignment", broker, MIN_INT32)
    has_assignment = topic.assignment is not None
    return CreatableTopic(
        name=topic.name,
        num_partitions=NUMBERS_FROM_ASSIGNMENT if has_assignment else topic.partitions,
        replication_factor=NUMBERS_FROM_ASSIGNMENT if has_assignment else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in (topic.assignment or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _requests(topics: Sequence[CreatableTopic]) -> Iterator[list[CreatableTopic]]:
    """Yield the topics of one request after the other, as many as a broker takes."""
    part: list[CreatableTopic] = []
    count = 0
    for topic in topics:
        replicas = sum(1 + len(each.broker_ids) for each in topic.assignments)
        own_count = 1 + max(0, topic.num_partitions) + replicas + len(topic.configs)
        if part and count + own_count > MAX_ELEMENTS:
            yield part
            part, count = [], 0
        part.append(topic)
        count += own_count
    if part:
        yield part
