"""CreatePartitions (edge); what may be added is decided by `broker.topic_plan`."""

from __future__ import annotations

from collections import Counter
from functools import partial

from broker.admin_queue import AdminQueue
from broker.metadata_cache import MetadataCache
from broker.reply import Reply
from broker.request_channel import Request
from broker.topic_plan import plan_growth
from broker.topic_source import TopicSource
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class CreatePartitionsHandler:
    """Adds partitions to topics."""

    def __init__(self, queue: AdminQueue, metadata: MetadataCache, topics: TopicSource) -> None:
        self._queue = queue
        self._metadata = metadata
        self._topics = topics

    def handle(self, request: Request, message: CreatePartitionsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        del request
        return self._queue.run(partial(self._grow_all, message))

    async def _grow_all(self, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in message.topics)
        results = [
            await self._grow(wanted, times[wanted.name], message.validate_only)
            for wanted in {topic.name: topic for topic in message.topics}.values()
        ]
        return CreatePartitionsResponse(results=results)

    async def _grow(
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
                await self._topics.add_partitions(wanted.name, added)
        except ApiError as error:
            return CreatePartitionsTopicResult(
                name=wanted.name,
                error_code=error.code,
                error_message=error.message or error.code.text,
            )
        return CreatePartitionsTopicResult(name=wanted.name)
