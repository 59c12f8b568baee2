"""CreateTopics, DeleteTopics and CreatePartitions (edge).

What may be done is decided by `broker.topic_plan`; the doing is the topic source's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from broker.config import BrokerConfig
from broker.config_entry import topic_entries
from broker.metadata_cache import MetadataCache
from broker.reply import Reply
from broker.request_channel import Request
from broker.topic_plan import (
    TopicDefaults,
    TopicWish,
    plan_growth,
    plan_topic,
)
from broker.topic_source import TopicSource
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_DELETE_BY_ID: Final = 6
FIRST_DELETE_WITH_DISABLED: Final = 3

log = structlog.get_logger(__name__)


class CreateTopicsHandler:
    """Creates topics, or only says whether that would work."""

    def __init__(self, metadata: MetadataCache, topics: TopicSource, config: BrokerConfig) -> None:
        self._metadata = metadata
        self._topics = topics
        self._config = config
        self._defaults = topic_defaults_of(config)

    def handle(self, request: Request, message: CreateTopicsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        del request
        times = Counter(topic.name for topic in message.topics)
        results = [
            self._create(wanted, times[wanted.name], message.validate_only)
            for wanted in {topic.name: topic for topic in message.topics}.values()
        ]
        return Reply(CreateTopicsResponse(topics=results))

    def _create(
        self, wanted: CreatableTopic, times: int, validate_only: bool
    ) -> CreatableTopicResult:
        try:
            if times > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {wanted.name} is named twice")
            plan = plan_topic(_wish(wanted), self._metadata.image, self._defaults)
            topic_id = ZERO_TOPIC_ID
            if not validate_only:
                topic_id = self._topics.create(plan).topic_id
        except ApiError as error:
            log.info("topic.rejected", topic=wanted.name, error=str(error))
            return CreatableTopicResult(
                name=wanted.name,
                error_code=error.code,
                error_message=error.message or error.code.text,
            )
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(plan.assignments),
            replication_factor=len(plan.assignments[0]),
            configs=list(self._configs(plan.configs)),
        )

    def _configs(self, configs: Mapping[str, str]) -> Iterable[CreatableTopicConfigs]:
        for entry in topic_entries(configs, self._config):
            yield CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
            )


class CreatePartitionsHandler:
    """Adds partitions to topics."""

    def __init__(self, metadata: MetadataCache, topics: TopicSource) -> None:
        self._metadata = metadata
        self._topics = topics

    def handle(self, request: Request, message: CreatePartitionsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        del request
        times = Counter(topic.name for topic in message.topics)
        results = [
            self._grow(wanted, times[wanted.name], message.validate_only)
            for wanted in {topic.name: topic for topic in message.topics}.values()
        ]
        return Reply(CreatePartitionsResponse(results=results))

    def _grow(
        self, wanted: CreatePartitionsTopic, times: int, validate_only: bool
    ) -> CreatePartitionsTopicResult:
        chosen = wanted.assignments
        try:
            if times > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {wanted.name} is named twice")
            added = plan_growth(
                wanted.name,
                wanted.count,
                None if chosen is None else [assignment.broker_ids for assignment in chosen],
                self._metadata.image,
            )
            if not validate_only:
                self._topics.add_partitions(wanted.name, added)
        except ApiError as error:
            return CreatePartitionsTopicResult(
                name=wanted.name,
                error_code=error.code,
                error_message=error.message or error.code.text,
            )
        return CreatePartitionsTopicResult(name=wanted.name)


class DeleteTopicsHandler:
    """Deletes topics, by name or by id."""

    def __init__(self, metadata: MetadataCache, topics: TopicSource, *, is_enabled: bool) -> None:
        self._metadata = metadata
        self._topics = topics
        self._is_enabled = is_enabled

    def handle(self, request: Request, message: DeleteTopicsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        version = request.header.api_version
        wanted: Sequence[DeleteTopicState] = message.topics
        if version < FIRST_DELETE_BY_ID:
            wanted = [DeleteTopicState(name=name) for name in message.topic_names]
        times = Counter((topic.name, topic.topic_id) for topic in wanted)
        return Reply(
            DeleteTopicsResponse(
                responses=[
                    self._delete(topic, times[topic.name, topic.topic_id], version)
                    for topic in wanted
                ]
            )
        )

    def _delete(self, wanted: DeleteTopicState, times: int, version: int) -> DeletableTopicResult:
        name = wanted.name
        try:
            self._check(wanted, times, version)
            if name is None:
                name = self._metadata.image.topic_names.get(wanted.topic_id)
                if name is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            if name not in self._metadata.image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._topics.delete(name)
        except ApiError as error:
            return DeletableTopicResult(
                name=name,
                topic_id=wanted.topic_id,
                error_code=error.code,
                error_message=error.message or error.code.text,
            )
        return DeletableTopicResult(name=name, topic_id=wanted.topic_id)

    def _check(self, wanted: DeleteTopicState, times: int, version: int) -> None:
        if not self._is_enabled:
            knows_code = version >= FIRST_DELETE_WITH_DISABLED
            raise ApiError(
                ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
            )
        if wanted.name is not None and wanted.topic_id != ZERO_TOPIC_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by name or id, not both")
        if times > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice")


def topic_defaults_of(config: BrokerConfig) -> TopicDefaults:
    """Return what the broker fills in for what a client leaves open."""
    return TopicDefaults(
        partition_count=config.num_partitions,
        replication_factor=config.default_replication_factor,
        log_config=config.topic_defaults,
    )


def _wish(wanted: CreatableTopic) -> TopicWish:
    return TopicWish(
        name=wanted.name,
        partition_count=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments={
            assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments
        },
        configs={config.name: config.value for config in wanted.configs},
    )
