"""DeleteTopics, by name or by id (edge)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.admin_queue import AdminQueue
from broker.metadata_cache import MetadataCache
from broker.reply import Reply
from broker.request_channel import Request
from broker.topic_source import TopicSource
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_DELETE_BY_ID: Final = 6
FIRST_DELETE_WITH_DISABLED: Final = 3


class DeleteTopicsHandler:
    """Deletes topics, by name or by id."""

    def __init__(
        self,
        queue: AdminQueue,
        metadata: MetadataCache,
        topics: TopicSource,
        *,
        is_enabled: bool,
    ) -> None:
        self._queue = queue
        self._metadata = metadata
        self._topics = topics
        self._is_enabled = is_enabled

    def handle(self, request: Request, message: DeleteTopicsRequest) -> Reply:
        """Answer for every topic; a bad one does not fail the others."""
        return self._queue.run(partial(self._delete_all, message, request.header.api_version))

    async def _delete_all(self, message: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
        wanted: Sequence[DeleteTopicState] = message.topics
        if version < FIRST_DELETE_BY_ID:
            wanted = [DeleteTopicState(name=name) for name in message.topic_names]
        times = Counter((topic.name, topic.topic_id) for topic in wanted)
        return DeleteTopicsResponse(
            responses=[
                await self._delete(topic, times[topic.name, topic.topic_id], version)
                for topic in wanted
            ]
        )

    async def _delete(
        self, wanted: DeleteTopicState, times: int, version: int
    ) -> DeletableTopicResult:
        name = wanted.name
        try:
            self._check(wanted, times, version)
            if name is None:
                name = self._metadata.image.topic_names.get(wanted.topic_id)
                if name is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            if name not in self._metadata.image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await self._topics.delete(name)
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
