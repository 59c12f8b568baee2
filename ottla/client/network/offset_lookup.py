"""Looks up offsets by time, and the ends of logs (edge).

Each leader gets one request, or several for very many partitions. If a broker is not the leader,
its partitions are looked up again with fresh metadata.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.list_offsets import (
    TIMESTAMPS_SINCE,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.sentinels import CONSUMER_REPLICA_ID, MAX_OFFSET, NO_EPOCH, READ_UNCOMMITTED
from ottla.client.argument import require_by_partition, require_whole
from ottla.client.errors import OttlaError, UnsupportedVersionError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.network.partition_lookup import missing_partitions, with_patience
from ottla.client.offset import OffsetAndTimestamp
from ottla.client.request_parts import parts
from ottla.client.retry import is_retriable, retry

Results = dict[TopicPartition, OffsetAndTimestamp | OttlaError]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return, per partition, the first offset at or after the timestamp in `wanted`.

    Timestamp -1 means the end of the log, -2 its start.

    Raises:
        OttlaError: the lookup of a partition was refused, or failed for `timeout_s`.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        left = {each: when for each, when in wanted.items() if each not in found}
        results = await ask_leaders(cluster, left, isolation_level)
        failure: OttlaError | None = None
        for topic_partition, result in results.items():
            if isinstance(result, OttlaError):
                # A permanent error takes precedence over a retriable one.
                failure = result if failure is None or failure.retriable else failure
            else:
                found[topic_partition] = result
        if failure is not None:
            cluster.request_refresh()
            raise failure

    wanted = {
        each: require_whole("a timestamp", when, -MAX_OFFSET, MAX_OFFSET)
        for each, when in require_by_partition("wanted", wanted).items()
    }
    for missing in (await missing_partitions(cluster, wanted, timeout_s)).values():
        raise missing
    passes_soon = with_patience(is_retriable)

    def may_pass(error: OttlaError) -> bool:
        # The leader of a new topic may learn of it much later than the metadata.
        return passes_soon(error) or (is_retriable(error) and not _is_any_gone(cluster, wanted))

    await retry(attempt, cluster.backoff, timeout_s, may_pass)
    return found


def _is_any_gone(cluster: Cluster, wanted: Iterable[TopicPartition]) -> bool:
    """Whether the metadata has lost a topic that it knew."""
    topics = map(cluster.metadata.topics.get, {each.topic for each in wanted})
    return any(it is None or it.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for it in topics)


async def ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> Results:
    """Ask each leader, all at once; return an offset or an error for every partition."""
    by_leader: dict[BrokerId, dict[TopicPartition, int]] = {}
    results: Results = {}
    for topic_partition, timestamp in wanted.items():
        leader = cluster.metadata.leader(topic_partition)
        if leader is None:
            results[topic_partition] = broker_error(
                ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition)
            )
        else:
            by_leader.setdefault(leader, {})[topic_partition] = timestamp
    requests = [
        (leader, dict(part)) for leader, asked in by_leader.items() for part in parts(asked.items())
    ]
    for part in await asyncio.gather(
        *(_ask(cluster, leader, part, isolation_level) for leader, part in requests)
    ):
        results.update(part)
    return results


async def _ask(
    cluster: Cluster, leader: BrokerId, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> Results:
    def request(version: int) -> ListOffsetsRequest:
        for timestamp in wanted.values():
            if version < (since := TIMESTAMPS_SINCE.get(timestamp, 0)):
                # An older broker takes it for a time, and finds the first record of the log.
                raise UnsupportedVersionError(
                    f"timestamp {timestamp} needs ListOffsets in version {since}, but broker "
                    f"{leader} speaks version {version}: upgrade the broker"
                )
        return _request(cluster, wanted, isolation_level)

    try:
        response = await cluster.request(leader, request, ListOffsetsResponse)
    except OttlaError as error:
        return dict.fromkeys(wanted, error)
    results: Results = {}
    for topic in response.topics:
        for result in topic.partitions:
            key = TopicPartition(topic.name, result.partition_index)
            if key not in wanted:
                # The caller would apply it to a partition that it did not ask for.
                continue
            if result.error_code == ErrorCode.NONE:
                results[key] = OffsetAndTimestamp(
                    Offset(result.offset), result.timestamp, LeaderEpoch(result.leader_epoch)
                )
            else:
                results[key] = broker_error(result.error_code, str(key))
    for key in wanted.keys() - results.keys():
        results[key] = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(key))
    return results


def _request(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic_partition, timestamp in wanted.items():
        held = cluster.metadata.partition(topic_partition)
        partition = ListOffsetsPartition(
            partition_index=topic_partition.partition,
            current_leader_epoch=held.leader_epoch if held else NO_EPOCH,
            timestamp=timestamp,
        )
        by_topic.setdefault(topic_partition.topic, []).append(partition)
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
