"""Looks up the partitions that a caller names, and reports the ones that do not exist (edge)."""

import asyncio
from collections.abc import Callable, Collection

from kafkawire.ids import TopicPartition
from ottla.client.errors import (
    BrokerError,
    OttlaError,
    UnknownPartitionError,
    UnknownTopicError,
)
from ottla.client.network.cluster import UNKNOWN_PATIENCE_S, Cluster
from ottla.client.retry import retry


async def missing_partitions(
    cluster: Cluster, wanted: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, OttlaError]:
    """Return the error of each partition that does not exist; know the others from now on.

    A partition may be newer than the metadata, and brokers learn of it a moment after its creation.

    Raises:
        OttlaError: no broker could be reached within `timeout_s`.
    """

    async def refusal(topic: str) -> BrokerError | None:
        try:
            await cluster.topic(topic, timeout_s)
        except BrokerError as error:
            return error
        return None

    topics = sorted({each.topic for each in wanted})
    refusals = dict(zip(topics, await asyncio.gather(*map(refusal, topics)), strict=True))
    missing: dict[TopicPartition, OttlaError] = {}
    described = []
    for each in wanted:
        if (error := refusals[each.topic]) is not None:
            missing[each] = error
        else:
            described.append(each)

    def unknown() -> list[TopicPartition]:
        return [each for each in described if cluster.metadata.partition(each) is None]

    async def attempt() -> None:
        if unknown():
            await cluster.refresh()
        if left := unknown():
            raise _no_partition(left[0])

    try:
        await retry(attempt, cluster.backoff, min(timeout_s, UNKNOWN_PATIENCE_S), _may_appear)
    except UnknownPartitionError:
        missing |= {each: _no_partition(each) for each in unknown()}
    return missing


def is_unknown_topic(error: OttlaError) -> bool:
    """Whether the topic or partition does not exist, or is newer than the knowledge of a broker."""
    return isinstance(error, UnknownTopicError)


def with_patience(may_pass: Callable[[OttlaError], bool]) -> Callable[[OttlaError], bool]:
    """Return `may_pass` for the errors from now on, with an end to the wait for an unknown topic.

    After `UNKNOWN_PATIENCE_S` a topic that is still unknown was deleted, or never existed.
    """
    loop = asyncio.get_running_loop()
    patient_until_s = loop.time() + UNKNOWN_PATIENCE_S

    def may_still_pass(error: OttlaError) -> bool:
        return may_pass(error) and not (is_unknown_topic(error) and loop.time() > patient_until_s)

    return may_still_pass


def _may_appear(error: OttlaError) -> bool:
    return error.retriable or isinstance(error, UnknownPartitionError)


def _no_partition(each: TopicPartition) -> UnknownPartitionError:
    return UnknownPartitionError(
        f"topic {each.topic} has no partition {each.partition}: choose one that exists"
    )
