"""OffsetCommit and OffsetDelete (edge)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from broker.cluster.metadata_cache import MetadataCache
from broker.groups.commits import GroupCommits
from broker.handlers.handler_table import Apis, Parts
from broker.handlers.old_offsets import by_version
from broker.network.reply import Reply
from broker.network.request import Request
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import MAX_TIMESTAMP_MS, CommittedOffset
from kafkawire.ids import TopicPartition
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkawire.sentinels import NO_TIMESTAMP

DEFAULT_RETENTION: Final = -1

T = TypeVar("T")
Answers = dict[TopicPartition, ErrorCode]

APIS: Final[Apis] = {
    ApiKey.OFFSET_COMMIT: lambda parts: by_version(parts, "commit", _handler(parts).commit),
    ApiKey.OFFSET_DELETE: lambda parts: _handler(parts).delete,
}


class OffsetChecks:
    """Checks offsets before they are stored."""

    def __init__(self, commits: GroupCommits, metadata: MetadataCache) -> None:
        self._commits = commits
        self._metadata = metadata

    def check(self, partition: TopicPartition, committed: CommittedOffset) -> ErrorCode:
        """Return whether an offset may be stored."""
        code = self.check_exists(partition)
        if code is ErrorCode.NONE and not self._commits.is_acceptable(committed):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return code

    def check_exists(self, partition: TopicPartition) -> ErrorCode:
        """Return whether a partition exists."""
        is_known = self._metadata.image.partition(partition) is not None
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class OffsetCommitHandler:
    """Commits and deletes the offsets of groups."""

    def __init__(
        self, commits: GroupCommits, metadata: MetadataCache, now_ms: Callable[[], int]
    ) -> None:
        self._commits = commits
        self._checks = OffsetChecks(commits, metadata)
        self._now_ms = now_ms

    def commit(self, request: Request, message: OffsetCommitRequest) -> Reply:
        """Respond when the offsets are replicated; a bad offset does not fail the others."""
        del request
        refusals, commits = self._sort_out(message)
        reply = Reply()

        def answer(code: ErrorCode) -> None:
            reply.complete(_commit_response(with_result(refusals, code)))

        if set(refusals.values()) <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
            return Reply(_commit_response(refusals))
        member = (
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
        )
        self._commits.commit(message.group_id, member, commits, answer)
        return reply

    def delete(self, request: Request, message: OffsetDeleteRequest) -> Reply:
        """Delete offsets of topics to which the group is not subscribed."""
        del request
        named = [
            TopicPartition(topic.name, each.partition_index)
            for topic in message.topics
            for each in topic.partitions
        ]
        answers = {each: self._checks.check_exists(each) for each in named}
        known = [each for each, code in answers.items() if code is ErrorCode.NONE]
        try:
            answers |= self._commits.delete_offsets(message.group_id, known)
        except ApiError as error:
            return Reply(OffsetDeleteResponse(error_code=error.code))
        topics = answers_by_topic(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition, answers)
        return Reply(OffsetDeleteResponse(topics=topics))

    def _sort_out(
        self, message: OffsetCommitRequest
    ) -> tuple[Answers, dict[TopicPartition, CommittedOffset]]:
        """Return the error code of each offset, and the offsets with NONE."""
        refusals: Answers = {}
        commits: dict[TopicPartition, CommittedOffset] = {}
        for topic in message.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                committed = self._committed(each, message.retention_time_ms)
                refusals[partition] = self._checks.check(partition, committed)
                if refusals[partition] is ErrorCode.NONE:
                    commits[partition] = committed
        return refusals, commits

    def _committed(self, each: OffsetCommitRequestPartition, retention_ms: int) -> CommittedOffset:
        now_ms, stamp_ms = self._now_ms(), each.commit_timestamp
        has_default = retention_ms == DEFAULT_RETENTION
        return CommittedOffset(
            offset=each.committed_offset,
            leader_epoch=each.committed_leader_epoch,
            metadata=each.committed_metadata or "",
            commit_timestamp_ms=now_ms if stamp_ms == NO_TIMESTAMP else stamp_ms,
            expire_timestamp_ms=(
                None if has_default else min(now_ms + retention_ms, MAX_TIMESTAMP_MS)
            ),
        )


def with_result(refusals: Answers, code: ErrorCode) -> Answers:
    """Return the error code of each offset, where `code` is the result of the commit."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {
        partition: refusal if code is ErrorCode.NONE or refusal is unknown else code
        for partition, refusal in refusals.items()
    }


def _commit_response(answers: Answers) -> OffsetCommitResponse:
    topics = answers_by_topic(OffsetCommitResponseTopic, OffsetCommitResponsePartition, answers)
    return OffsetCommitResponse(topics=topics)


def answers_by_topic(
    topic_type: Callable[..., T], partition_type: Callable[..., object], answers: Answers
) -> list[T]:
    """Return `answers` by topic, in the message types of a response."""
    partitions: dict[str, list[object]] = {}
    for (topic, index), code in answers.items():
        row = partition_type(partition_index=index, error_code=code)
        partitions.setdefault(topic, []).append(row)
    return [topic_type(name=topic, partitions=rows) for topic, rows in partitions.items()]


def _handler(parts: Parts) -> OffsetCommitHandler:
    return OffsetCommitHandler(parts.groups.commits, parts.metadata, parts.now_ms)
