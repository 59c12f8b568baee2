"""CreateTopics (edge); `broker.cluster.topic_plan` decides on the partitions.

Only the broker that is the controller serves this request. It responds once its metadata has a
leader for every partition.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from broker.cluster.cluster_topics import ClusterTopics, CreationWaits
from broker.cluster.controller_role import ControllerRole
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_watch import MetadataWatch, has_leaders
from broker.cluster.topic_plan import TopicSpec, check_total
from broker.config.config_entry import topic_entries
from broker.config.dynamic_config import DynamicConfig
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks, in_turns
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from storage.config.topic_config import TOPIC_CONFIG_KEYS

# Limit of log lines about rejected topics per request.
MAX_LOGGED_TOPICS: Final = 10

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.CREATE_TOPICS: lambda parts: (
        CreateTopicsHandler(
            parts.tasks, parts.watch, parts.topics, parts.controller, parts.configs.broker
        ).handle
    ),
}


class CreateTopicsHandler:
    """Creates topics, or only validates the request."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: ClusterTopics,
        controller: ControllerRole,
        config: DynamicConfig,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._topics = topics
        self._controller = controller
        self._config = config

    def handle(self, request: Request, message: CreateTopicsRequest) -> Reply:
        """Respond with a result for every topic; a bad topic does not fail the others."""
        del request
        if not self._controller.is_active:
            # Not in the task: rights are checked on the controller only, before this call, and this
            # broker may become the controller before the task runs.
            names = dict.fromkeys(topic.name for topic in message.topics)
            refused = [_failed(name, ErrorCode.NOT_CONTROLLER, None) for name in names]
            _log_rejected(refused)
            return Reply(CreateTopicsResponse(topics=refused))
        return self._tasks.run(partial(self._create_all, message))

    async def _create_all(self, message: CreateTopicsRequest) -> CreateTopicsResponse:
        times = Counter(topic.name for topic in message.topics)
        specs = {topic.name: _spec(topic) for topic in message.topics}.values()
        try:
            check_total(map(self._topics.partition_count, specs))
        except ApiError as error:
            results = [_failed(each.name, error.code, error.message) for each in specs]
        else:
            waits = CreationWaits(asyncio.get_running_loop().time())
            results = [
                await self._create(wanted, times[wanted.name], message.validate_only, waits)
                async for wanted in in_turns(specs, self._weigh)
            ]
        _log_rejected(results)
        if not message.validate_only:
            created = [result for result in results if result.error_code == ErrorCode.NONE]
            await self._wait_for_leaders(created, message.timeout_ms)
        return CreateTopicsResponse(topics=results)

    def _weigh(self, wanted: TopicSpec) -> int:
        """Return the work for a topic: its partitions, and the configs in its result."""
        return self._topics.partition_count(wanted) + len(TOPIC_CONFIG_KEYS)

    async def _create(
        self, wanted: TopicSpec, times: int, validate_only: bool, waits: CreationWaits
    ) -> CreatableTopicResult:
        try:
            if not self._controller.is_active:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            if times > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {wanted.name} is named twice")
            plan = self._topics.plan(wanted)
            topic_id = ZERO_TOPIC_ID if validate_only else await self._topics.create(plan, waits)
        except ApiError as error:
            return _failed(wanted.name, error.code, error.message)
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(plan.assignments),
            replication_factor=len(plan.assignments[0]),
            configs=list(self._configs(plan.configs)),
        )

    async def _wait_for_leaders(
        self, created: Sequence[CreatableTopicResult], timeout_ms: int
    ) -> None:
        """Wait for a leader of every partition; mark topics without one as timed out."""

        def is_led(image: ClusterImage, result: CreatableTopicResult) -> bool:
            return has_leaders(image, result.name, result.num_partitions)

        for result in await self._watch.wait_for_each(created, is_led, timeout_ms):
            text = f"created, but not every partition has a leader after {timeout_ms} ms"
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = text

    def _configs(self, configs: Mapping[str, str]) -> Iterable[CreatableTopicConfigs]:
        for entry in topic_entries(configs, self._config):
            yield CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
            )


def _log_rejected(results: Sequence[CreatableTopicResult]) -> None:
    """Log the first rejected topics, then only their total: each line costs 20 us."""
    rejected = [result for result in results if result.error_code != ErrorCode.NONE]
    for result in rejected[:MAX_LOGGED_TOPICS]:
        code = ErrorCode(result.error_code)
        log.info("topic.rejected", topic=result.name, code=code.name, error=result.error_message)
    if len(rejected) > MAX_LOGGED_TOPICS:
        log.info("topics.rejected", topic_count=len(rejected))


def _failed(name: str, code: ErrorCode, text: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=text or code.text)


def _spec(wanted: CreatableTopic) -> TopicSpec:
    return TopicSpec(
        name=wanted.name,
        partition_count=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments={
            assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments
        },
        configs={config.name: config.value for config in wanted.configs},
    )
