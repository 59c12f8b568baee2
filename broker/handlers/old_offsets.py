"""OffsetCommit and OffsetFetch in version 0: offsets in the coordinator's nodes (edge).

Kafka's old tools and consumers send them. The nodes are never mixed with the offsets of the groups
that this broker coordinates.

Source: kafka.server.KafkaApis of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.metadata_cache import MetadataCache
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.network.router import Handler
from clusterstate.old_offsets import read_old_offsets, write_old_offsets
from clusterstate.plans import Plan
from clusterstate.znodes.consumer_nodes import is_group_name
from coordination.errors import OperationError
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition, by_topic
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafkawire.sentinels import NO_OFFSET

TIMEOUT_S: Final = 10.0
"""Time for the coordinator to respond, in which a lost connection may be restored."""
LAST_OLD_VERSION: Final = 0

T = TypeVar("T")
log = structlog.get_logger(__name__)


class OldOffsetsHandler:
    """Serves the two requests."""

    def __init__(
        self,
        tasks: RequestTasks,
        session: CoordinatorSession,
        metadata: MetadataCache,
        *,
        metadata_max_bytes: int,
    ) -> None:
        self._tasks = tasks
        self._session = session
        self._metadata = metadata
        self._metadata_max_bytes = metadata_max_bytes

    def commit(self, request: Request, message: OffsetCommitRequest) -> Reply:
        """Write the offsets of partitions that exist; one that is refused does not fail others."""
        del request
        codes: dict[TopicPartition, ErrorCode] = {}
        offsets: dict[TopicPartition, int] = {}
        # Once, as the name may be as long as the request.
        is_named = is_group_name(message.group_id)
        for topic in message.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                codes[partition] = self._check_row(is_named, partition, each)
                if codes[partition] is ErrorCode.NONE:
                    offsets[partition] = each.committed_offset

        async def write() -> OffsetCommitResponse:
            refused = await self._run(write_old_offsets(message.group_id, offsets))
            failed = offsets.keys() if refused is None else refused
            codes.update(dict.fromkeys(failed, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return _committed(message, codes)

        return self._tasks.run(write) if offsets else Reply(_committed(message, codes))

    def fetch(self, request: Request, message: OffsetFetchRequest) -> Reply:
        """Return the offsets; -1 and an error where there is none, as Kafka."""
        del request
        asked = [
            TopicPartition(topic.name, index)
            for topic in message.topics or ()
            for index in topic.partition_indexes
        ]
        is_named = is_group_name(message.group_id)
        codes = {each: self._check(is_named, each) for each in asked}
        known = [each for each, code in codes.items() if code is ErrorCode.NONE]

        async def read() -> OffsetFetchResponse:
            found = await self._run(read_old_offsets(message.group_id, known))
            if found is None:
                codes.update(dict.fromkeys(known, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return _fetched(codes, {})
            offsets = {each: offset for each, offset in found.items() if offset is not None}
            missing = found.keys() - offsets.keys()
            codes.update(dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return _fetched(codes, offsets)

        return self._tasks.run(read) if known else Reply(_fetched(codes, {}))

    def _check(self, is_named: bool, partition: TopicPartition) -> ErrorCode:
        if not is_named:
            return ErrorCode.INVALID_GROUP_ID
        is_known = self._metadata.image.partition(partition) is not None
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _check_row(
        self, is_named: bool, partition: TopicPartition, row: OffsetCommitRequestPartition
    ) -> ErrorCode:
        code = self._check(is_named, partition)
        if code is not ErrorCode.NONE:
            return code
        if len(row.committed_metadata or "") > self._metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        # A node with a negative number makes the old consumers fail.
        return ErrorCode.OFFSET_OUT_OF_RANGE if row.committed_offset < 0 else ErrorCode.NONE

    async def _run(self, plan: Plan[T]) -> T | None:
        """Return the result of a plan; None if the coordinator does not respond or refuses."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._session.run(plan)
        except (OperationError, TimeoutError) as error:
            log.warning("old_offsets.failed", error=str(error) or "no response in time")
            return None


def by_version(parts: Parts, old: str, new: Handler) -> Handler:
    """Return a handler that passes version 0 to the method `old`, and others to `new`."""
    handler = OldOffsetsHandler(
        parts.tasks,
        parts.session,
        parts.metadata,
        metadata_max_bytes=parts.config.groups.offset_metadata_max_bytes,
    )
    serve_old: Callable[[Request, Any], Reply] = getattr(handler, old)

    def handle(request: Request, message: Any) -> Reply:
        is_old = request.header.api_version <= LAST_OLD_VERSION
        return serve_old(request, message) if is_old else new(request, message)

    return handle


def _committed(
    message: OffsetCommitRequest, codes: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    """Return a row per row of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes[TopicPartition(topic.name, each.partition_index)],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _fetched(
    codes: dict[TopicPartition, ErrorCode], offsets: dict[TopicPartition, int]
) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=offsets.get(TopicPartition(topic, index), NO_OFFSET),
                        metadata="",
                        error_code=codes[TopicPartition(topic, index)],
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(codes).items()
        ]
    )
