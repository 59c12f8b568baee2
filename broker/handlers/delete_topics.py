"""DeleteTopics, by name or by id; only the controller deletes topics (edge)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.controller_role import ControllerRole
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_watch import MetadataWatch
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.delete_topics import (
    DELETION_DISABLED_SINCE,
    TOPICS_SINCE,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

APIS: Final[Apis] = {
    ApiKey.DELETE_TOPICS: lambda parts: (
        DeleteTopicsHandler(
            parts.tasks,
            parts.watch,
            parts.topics,
            parts.controller,
            is_enabled=parts.config.server.delete_topic_enable,
        ).handle
    ),
}


class DeleteTopicsHandler:
    """Deletes topics, by name or by id."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: ClusterTopics,
        controller: ControllerRole,
        *,
        is_enabled: bool,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._topics = topics
        self._controller = controller
        self._is_enabled = is_enabled

    def handle(self, request: Request, message: DeleteTopicsRequest) -> Reply:
        """Respond with a result for every topic; a bad topic does not fail the others."""
        wanted: Sequence[DeleteTopicState] = message.topics
        version = request.header.api_version
        if version < TOPICS_SINCE:
            wanted = [DeleteTopicState(name=name) for name in message.topic_names]
        if not self._controller.is_active:
            # Not in the task, like in CreateTopics.
            error = ApiError(ErrorCode.NOT_CONTROLLER)
            refused = [_failed(topic.name, topic.topic_id, error) for topic in wanted]
            return Reply(DeleteTopicsResponse(responses=refused))
        return self._tasks.run(partial(self._delete_all, wanted, message.timeout_ms, version))

    async def _delete_all(
        self, wanted: Sequence[DeleteTopicState], timeout_ms: int, version: int
    ) -> DeleteTopicsResponse:
        times = Counter((topic.name, topic.topic_id) for topic in wanted)
        results = [
            self._found(topic, times[topic.name, topic.topic_id], version) for topic in wanted
        ]
        await self._delete([each for each in results if each.error_code == ErrorCode.NONE])
        await self._wait_until_gone(results, timeout_ms)
        return DeleteTopicsResponse(responses=results)

    def _found(self, wanted: DeleteTopicState, times: int, version: int) -> DeletableTopicResult:
        """Return the topic with its name and id, or the error of a request that is refused."""
        name, topic_id = wanted.name, wanted.topic_id
        try:
            self._check(wanted, times, version)
            if name is None:
                name = self._watch.image.topic_names.get(topic_id)
                if name is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            topic = self._watch.image.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic_id = topic.topic_id
        except ApiError as error:
            return _failed(name, topic_id, error)
        return DeletableTopicResult(name=name, topic_id=topic_id)

    async def _delete(self, results: Sequence[DeletableTopicResult]) -> None:
        """Delete topics together; set the error of each that cannot be deleted."""
        names = [str(each.name) for each in results]
        try:
            unknown = await self._topics.delete(names)
        except ApiError as error:
            for each in results:
                _fail(each, error)
            return
        for each in results:
            if each.name in unknown:
                text = f"topic {each.name} does not exist"
                _fail(each, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))

    async def _wait_until_gone(
        self, results: Iterable[DeletableTopicResult], timeout_ms: int
    ) -> None:
        """Wait until the metadata lacks the topics; their files are deleted later."""
        deleted = [result for result in results if result.error_code == ErrorCode.NONE]

        def is_gone(image: ClusterImage, result: DeletableTopicResult) -> bool:
            return result.topic_id not in image.topic_names

        for result in await self._watch.wait_for_each(deleted, is_gone, timeout_ms):
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = f"not yet deleted after {timeout_ms} ms; deletion continues"

    def _check(self, wanted: DeleteTopicState, times: int, version: int) -> None:
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if not self._is_enabled:
            knows_code = version >= DELETION_DISABLED_SINCE
            raise ApiError(
                ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST
            )
        if wanted.name is not None and wanted.topic_id != ZERO_TOPIC_ID:
            text = "a topic must be named by name or by id, not by both"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if times > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice")


def _failed(name: str | None, topic_id: UUID, error: ApiError) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    _fail(result, error)
    return result


def _fail(result: DeletableTopicResult, error: ApiError) -> None:
    result.error_code = error.code
    result.error_message = error.message or error.code.text
