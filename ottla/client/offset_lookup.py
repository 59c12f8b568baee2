"""Finds offsets by time, and the ends of logs. Edge: asks brokers.

One request goes to each leader; partitions whose leader was wrong are asked again with fresh
metadata.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.client.cluster import Cluster
from ottla.client.errors import OttlaError, UnknownPartitionError, broker_error
from ottla.client.metadata import NO_EPOCH
from ottla.client.retry import retry

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
CONSUMER_REPLICA_ID: Final = -1
NO_OFFSET: Final = Offset(-1)


class OffsetAndTimestamp(NamedTuple):
    """A place in a log. `offset` is -1 when no record is that late, `timestamp_ms` -1 for ends."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


Answers = dict[TopicPartition, OffsetAndTimestamp | OttlaError]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return, per partition, the first offset whose timestamp is at or after the one `wanted`.

    Timestamps -1 and -2 ask for the end and the start of the log.

    Raises:
        OttlaError: some partition could not be asked within `timeout_s`, or must not be.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        left = {each: when for each, when in wanted.items() if each not in found}
        answers = await ask_leaders(cluster, left, isolation_level)
        failure: OttlaError | None = None
        for topic_partition, answer in answers.items():
            if isinstance(answer, OttlaError):
                # One that cannot be cured by trying again must not hide behind one that can.
                failure = answer if failure is None or failure.retriable else failure
            else:
                found[topic_partition] = answer
        if failure is not None:
            cluster.request_refresh()
            raise failure

    for topic in sorted({each.topic for each in wanted}):
        held = await cluster.topic(topic, timeout_s)
        for each in wanted:
            if each.topic == topic and each.partition not in held.partitions:
                raise UnknownPartitionError(
                    f"topic {topic} has no partition {each.partition}: choose one that exists"
                )
    await retry(attempt, cluster.backoff, timeout_s)
    return found


async def ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> Answers:
    """Ask each leader once; every partition gets an answer or the error that it met."""
    by_leader: dict[BrokerId, dict[TopicPartition, int]] = {}
    answers: Answers = {}
    for topic_partition, timestamp in wanted.items():
        leader = cluster.metadata.leader(topic_partition)
        if leader is None:
            answers[topic_partition] = broker_error(
                ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition)
            )
        else:
            by_leader.setdefault(leader, {})[topic_partition] = timestamp
    for part in await asyncio.gather(
        *(_ask(cluster, leader, part, isolation_level) for leader, part in by_leader.items())
    ):
        answers.update(part)
    return answers


async def _ask(
    cluster: Cluster, leader: BrokerId, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> Answers:
    try:
        response = await cluster.request(
            leader, _request(cluster, wanted, isolation_level), ListOffsetsResponse
        )
    except OttlaError as error:
        return dict.fromkeys(wanted, error)
    answers: Answers = {}
    for topic in response.topics:
        for answer in topic.partitions:
            asked = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code == ErrorCode.NONE:
                answers[asked] = OffsetAndTimestamp(
                    Offset(answer.offset), answer.timestamp, LeaderEpoch(answer.leader_epoch)
                )
            else:
                answers[asked] = broker_error(answer.error_code, str(asked))
    for asked in wanted.keys() - answers.keys():
        answers[asked] = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(asked))
    return answers


def _request(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic_partition, timestamp in wanted.items():
        held = cluster.metadata.partition(topic_partition)
        asked = ListOffsetsPartition(
            partition_index=topic_partition.partition,
            current_leader_epoch=held.leader_epoch if held else NO_EPOCH,
            timestamp=timestamp,
        )
        by_topic.setdefault(topic_partition.topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
