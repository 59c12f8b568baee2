"""CreatePartitions (edge); `broker.cluster.topic_plan` decides on the partitions.

Only the controller adds partitions. It responds once its metadata has a leader for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.controller_role import ControllerRole
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_watch import MetadataWatch, has_leaders
from broker.cluster.topic_plan import check_total
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

APIS: Final[Apis] = {
    ApiKey.CREATE_PARTITIONS: lambda parts: (
        CreatePartitionsHandler(parts.tasks, parts.watch, parts.topics, parts.controller).handle
    ),
}


class CreatePartitionsHandler:
    """Adds partitions to topics."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: ClusterTopics,
        controller: ControllerRole,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._topics = topics
        self._controller = controller

    def handle(self, request: Request, message: CreatePartitionsRequest) -> Reply:
        """Respond with a result for every topic; a bad topic does not fail the others."""
        del request
        if not self._controller.is_active:
            # Not in the task, like in CreateTopics.
            names = dict.fromkeys(topic.name for topic in message.topics)
            refused = [_failed(name, ErrorCode.NOT_CONTROLLER, None) for name in names]
            return Reply(CreatePartitionsResponse(results=refused))
        return self._tasks.run(partial(self._grow_all, message))

    async def _grow_all(self, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
        times = Counter(topic.name for topic in message.topics)
        distinct = {topic.name: topic for topic in message.topics}.values()
        try:
            check_total(map(self._added_count, distinct))
        except ApiError as error:
            refused = [_failed(each.name, error.code, error.message) for each in distinct]
            return CreatePartitionsResponse(results=refused)
        results, counts = [], {}
        for wanted in distinct:
            try:
                counts[wanted.name] = await self._grow(wanted, times, message.validate_only)
                results.append(CreatePartitionsTopicResult(name=wanted.name))
            except ApiError as error:
                results.append(_failed(wanted.name, error.code, error.message))
        if not message.validate_only:
            await self._wait_for_leaders(results, counts, message.timeout_ms)
        return CreatePartitionsResponse(results=results)

    def _added_count(self, wanted: CreatePartitionsTopic) -> int:
        """Return the number of partitions to be added to a known topic."""
        topic = self._watch.image.topics.get(wanted.name)
        return 0 if topic is None else max(0, wanted.count - len(topic.partitions))

    async def _grow(
        self, wanted: CreatePartitionsTopic, times: Mapping[str, int], validate_only: bool
    ) -> int:
        """Return the new partition count of the topic."""
        if not self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if times[wanted.name] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {wanted.name} is named twice")
        chosen = wanted.assignments
        return await self._topics.add_partitions(
            wanted.name,
            wanted.count,
            None if chosen is None else [assignment.broker_ids for assignment in chosen],
            validate_only=validate_only,
        )

    async def _wait_for_leaders(
        self,
        results: Iterable[CreatePartitionsTopicResult],
        counts: Mapping[str, int],
        timeout_ms: int,
    ) -> None:
        def is_led(image: ClusterImage, name: str) -> bool:
            return has_leaders(image, name, counts[name])

        late = set(await self._watch.wait_for_each(counts, is_led, timeout_ms))
        for result in results:
            if result.name in late:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = f"not every partition has a leader after {timeout_ms} ms"


def _failed(name: str, code: ErrorCode, text: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=text or code.text)
