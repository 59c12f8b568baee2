"""Describes log directories, moves replicas between them, and deletes records (edge)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset, TopicPartition, by_topic
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkawire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kafkawire.sentinels import MAX_OFFSET
from ottla.client.admin.admin_request import (
    all_answers,
    change,
    change_parts,
    error_or_none,
    raise_first,
    raise_refused,
    read,
)
from ottla.client.admin_model import LogDirectory, ReplicaLog
from ottla.client.argument import (
    require_by_partition,
    require_list,
    require_mapping,
    require_partition,
    require_text,
    require_whole,
)
from ottla.client.errors import OttlaError, broker_error, no_result
from ottla.client.network.cluster import Cluster
from ottla.client.network.partition_lookup import missing_partitions
from ottla.client.request_parts import parts
from ottla.client.retry import retry

HIGH_WATERMARK: Final = -1
"""Offset of `delete_records` for the high watermark."""


async def describe_log_dirs(
    cluster: Cluster,
    brokers: Iterable[BrokerId],
    topics: Mapping[str, Sequence[int]] | None,
    timeout_s: float,
) -> list[LogDirectory]:
    """Return the log directories of `brokers` with their replicas, limited to `topics` if given.

    A directory that is offline has an `error`, and does not hide the others.

    Raises:
        OttlaError: a broker did not respond within `timeout_s`.
    """
    wanted = None
    if topics is not None:
        require_mapping("topics", topics)
        wanted = [
            DescribableLogDirTopic(
                topic=topic,
                partitions=sorted(
                    {
                        require_partition((topic, each)).partition
                        for each in require_list("the partitions of a topic", "ids", partitions)
                    }
                ),
            )
            for topic, partitions in topics.items()
        ]
    request = DescribeLogDirsRequest(topics=wanted)

    async def ask(broker_id: BrokerId) -> list[LogDirectory]:
        response = await read(
            cluster,
            lambda: cluster.request(broker_id, request, DescribeLogDirsResponse),
            timeout_s,
        )
        raise_first([error_or_none(response.error_code, f"log directories of {broker_id}")])
        return [_directory(broker_id, each) for each in response.results]

    found = await all_answers(ask(broker_id) for broker_id in brokers)
    return [directory for directories in found for directory in directories]


async def move_replicas(
    cluster: Cluster,
    broker_id: BrokerId,
    paths: Mapping[TopicPartition, str],
    timeout_s: float,
) -> None:
    """Start to move replicas of one broker to other log directories of the same broker.

    Raises:
        BrokerError: the broker has no such directory or partition.
    """
    wanted = sorted(require_by_partition("paths", paths).items())
    for _, path in wanted:
        require_text("the path of a log directory", path)

    async def move(part: list[tuple[TopicPartition, str]]) -> None:
        await _move_some(cluster, broker_id, part, timeout_s)

    await change_parts(parts(wanted), move)


async def _move_some(
    cluster: Cluster,
    broker_id: BrokerId,
    moves: Iterable[tuple[TopicPartition, str]],
    timeout_s: float,
) -> None:
    by_path: dict[str, list[TopicPartition]] = {}
    for each, path in moves:
        by_path.setdefault(path, []).append(each)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )

    async def attempt() -> None:
        response = await cluster.request(broker_id, request, AlterReplicaLogDirsResponse)
        raise_refused(
            (str(place) for places in by_path.values() for place in places),
            (
                (f"{topic.topic_name}-{part.partition_index}", part.error_code, None)
                for topic in response.results
                for part in topic.partitions
            ),
        )

    await change(cluster, attempt, timeout_s)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, Offset]:
    """Delete the records below the given offsets; return the new log start offsets.

    Each leader gets one request, or several for thousands of partitions; a retry leaves out the
    partitions that are done or refused.

    Raises:
        OttlaError: the first refusal, with the others as notes; the other records were deleted.
    """
    before = {
        each: require_whole("an offset", offset, HIGH_WATERMARK, MAX_OFFSET)
        for each, offset in require_by_partition("before", before).items()
    }
    done: dict[TopicPartition, Offset] = {}
    timeout_s = timeout_ms / 1000
    refused = await missing_partitions(cluster, before, timeout_s)

    async def attempt() -> None:
        by_leader: dict[BrokerId, dict[TopicPartition, int]] = {}
        passing: list[OttlaError] = []
        for each, offset in before.items():
            if each in done or each in refused:
                continue
            leader = cluster.metadata.leader(each)
            if leader is None:
                passing.append(broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(each)))
            else:
                by_leader.setdefault(leader, {})[each] = offset
        requests = [
            ask(leader, dict(part))
            for leader, asked in by_leader.items()
            for part in parts(asked.items())
        ]
        results = await asyncio.gather(*requests)
        for each, error in (pair for result in results for pair in result.items()):
            if error.retriable:
                passing.append(error)
            else:
                refused[each] = error
        if passing:
            cluster.request_refresh()
        raise_first(passing)

    async def ask(
        leader: BrokerId, part: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OttlaError]:
        try:
            response = await cluster.request(
                leader, _deletion(part, timeout_ms), DeleteRecordsResponse
            )
        except OttlaError as error:
            return dict.fromkeys(part, error)
        errors: dict[TopicPartition, OttlaError] = {each: no_result(str(each)) for each in part}
        for topic in response.topics:
            for result in topic.partitions:
                each = TopicPartition(topic.name, result.partition_index)
                if each not in part:
                    # A foreign row must not reach the result.
                    continue
                if result.error_code == ErrorCode.NONE:
                    done[each] = Offset(result.low_watermark)
                    errors.pop(each, None)
                else:
                    errors[each] = broker_error(result.error_code, str(each))
        return errors

    try:
        # Deleting below an offset twice does no harm, so every transient error may be retried.
        await retry(attempt, cluster.backoff, timeout_s)
    except OttlaError as error:
        raise_first([*refused.values(), error])
    raise_first(refused.values())
    return done


def _deletion(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    by_topic: dict[str, list[DeleteRecordsPartition]] = {}
    for each, offset in before.items():
        partition = DeleteRecordsPartition(partition_index=each.partition, offset=offset)
        by_topic.setdefault(each.topic, []).append(partition)
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
        timeout_ms=timeout_ms,
    )


def _directory(broker_id: BrokerId, result: DescribeLogDirsResult) -> LogDirectory:
    return LogDirectory(
        broker_id=broker_id,
        path=result.log_dir,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        replicas=tuple(
            ReplicaLog(
                topic_partition=TopicPartition(topic.name, replica.partition_index),
                size_bytes=replica.partition_size,
                offset_lag=replica.offset_lag,
                is_future=replica.is_future_key,
            )
            for topic in result.topics
            for replica in topic.partitions
        ),
        error=error_or_none(result.error_code, f"log directory {result.log_dir}"),
    )
