"""CreateTopics (edge); what may be created is decided by `broker.topic_plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

import structlog

from broker.admin_queue import AdminQueue
from broker.config import BrokerConfig
from broker.config_entry import topic_entries
from broker.metadata_cache import MetadataCache
from broker.reply import Reply
from broker.request_channel import Request
from broker.topic_plan import TopicWish, plan_topic, topic_defaults_of
from broker.topic_source import TopicSource
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

log = structlog.get_logger(__name__)


class CreateTopicsHandler:
    """Creates topics, or only says whether that would work."""

    def __init__(
        self,
        queue: AdminQueue,
        metadata: MetadataCache,
        topics: TopicSource,
        config: BrokerConfig,
    ) -> None:
        self._queue = queue
        self._metadata = metadata
        self._topics = topics
        self._config = config
        self._defaults = topic_defaults_of(config)

    def handle(self, request: Request, message: CreateTopicsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        del request
        return self._queue.run(partial(self._create_all, message))

    async def _create_all(self, message: CreateTopicsRequest) -> CreateTopicsResponse:
        times = Counter(topic.name for topic in message.topics)
        results = [
            await self._create(wanted, times[wanted.name], message.validate_only)
            for wanted in {topic.name: topic for topic in message.topics}.values()
        ]
        return CreateTopicsResponse(topics=results)

    async def _create(
        self, wanted: CreatableTopic, times: int, validate_only: bool
    ) -> CreatableTopicResult:
        try:
            if times > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {wanted.name} is named twice")
            plan = plan_topic(_wish(wanted), self._metadata.image, self._defaults)
            topic_id = ZERO_TOPIC_ID
            if not validate_only:
                topic_id = (await self._topics.create(plan)).topic_id
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
