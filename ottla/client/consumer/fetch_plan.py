"""Plans fetches: which partitions from which broker, and how many bytes (decision).

A lane is a connection that fetches; each broker has `LANE_COUNT`. Every lane has its share of the
prefetch limit, so that a long fetch at one broker leaves room for the others.
Invariants: buffered plus requested bytes stay within `prefetch_max_bytes`, except for one batch per
partition: a broker sends at least one batch, however large. While another partition has no room,
the paused ones hold at most half of it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkawire.sentinels import NO_EPOCH, NO_LEADER, READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.client_config import ConsumerConfig
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.consumer.fetch_session import FetchKey, SessionPart
from ottla.client.consumer.partition_state import PartitionState

LANE_COUNT: Final = 2
PAUSED_SHARE: Final = 1 / 2
"""Share of the prefetch limit that paused partitions keep if others have no room.

The rest is room for a fetch on any lane.
"""


@dataclass(slots=True)
class Plan:
    """Requests to send now, and the reasons why other partitions have to wait."""

    leaders: set[BrokerId]
    """Leaders of all assigned partitions."""
    fetches: dict[BrokerId, list[PartitionState]]
    lookups: list[PartitionState]
    """Partitions with an unknown position."""
    checks: dict[BrokerId, list[PartitionState]]
    """Partitions with a new leader, whose log may lack records that were fetched."""
    is_leaderless: bool
    """Whether a partition has no known leader."""
    look_again_at_s: float


def make_plan(
    states: Iterable[PartitionState],
    metadata: ClusterMetadata,
    config: ConsumerConfig,
    now_s: float,
) -> Plan:
    """Return the requests to send now, without partitions that have a request in flight."""
    plan = Plan(
        leaders=set(),
        fetches={},
        lookups=[],
        checks={},
        is_leaderless=False,
        look_again_at_s=inf,
    )
    for state in states:
        leader = metadata.leader(state.topic_partition)
        if leader is not None:
            plan.leaders.add(leader)
        if state.has_request or state.is_paused or state.error is not None:
            continue
        if state.retry_at_s > now_s:
            plan.look_again_at_s = min(plan.look_again_at_s, state.retry_at_s)
        elif leader is None:
            plan.is_leaderless = True
        elif state.fetch_offset is None:
            plan.lookups.append(state)
        elif _needs_check(state, metadata):
            plan.checks.setdefault(leader, []).append(state)
        elif state.buffered_bytes <= config.max_partition_fetch_bytes:
            reader = leader
            if state.preferred_replica != NO_LEADER:
                reader = _preferred(state, metadata, leader, now_s)
            plan.leaders.add(reader)
            plan.fetches.setdefault(reader, []).append(state)
    return plan


def _preferred(
    state: PartitionState, metadata: ClusterMetadata, leader: BrokerId, now_s: float
) -> BrokerId:
    """Return the replica that the leader has named, while it is in sync and not named too long ago.

    Source: KIP-392; the Java consumer asks the leader again after metadata.max.age.ms.
    """
    named = state.preferred_replica
    if now_s < state.preferred_until_s and is_in_sync(named, state.topic_partition, metadata):
        return named
    state.forget_preferred()
    return leader


def is_in_sync(
    replica: BrokerId, topic_partition: TopicPartition, metadata: ClusterMetadata
) -> bool:
    """Whether `metadata` shows `replica` as live and in sync."""
    held = metadata.partition(topic_partition)
    return held is not None and replica in held.isr and replica in metadata.brokers


def _needs_check(state: PartitionState, metadata: ClusterMetadata) -> bool:
    """Whether the leader has changed since the position was last checked."""
    held = metadata.partition(state.topic_partition)
    assert held is not None
    # Without the epoch of a record there is nothing to compare.
    return state.fetch_epoch != NO_EPOCH and held.leader_epoch > state.checked_epoch


def fetch_max_bytes(config: ConsumerConfig, leader_count: int, held_bytes: int) -> int:
    """Return the size limit of the next fetch, 0 for no fetch.

    `held_bytes` is the number of bytes that are buffered or requested.
    """
    share_bytes = max(config.prefetch_max_bytes // (LANE_COUNT * leader_count), 1)
    room_bytes = config.prefetch_max_bytes - held_bytes
    if room_bytes < min(share_bytes, config.max_partition_fetch_bytes):
        return 0
    return min(share_bytes, room_bytes, config.fetch_max_bytes)


def paused_to_drop(
    states: Iterable[PartitionState], config: ConsumerConfig
) -> list[PartitionState]:
    """Return the paused partitions whose fetched data others need the room of.

    They are fetched again after they were resumed.
    """
    paused = [state for state in states if state.is_paused and state.buffered_bytes > 0]
    held_bytes = sum(state.buffered_bytes for state in paused)
    dropped = []
    for state in paused:
        if held_bytes <= config.prefetch_max_bytes * PAUSED_SHARE:
            break
        held_bytes -= state.buffered_bytes
        dropped.append(state)
    return dropped


def wanted_partitions(
    states: Collection[PartitionState],
    metadata: ClusterMetadata,
    config: ConsumerConfig,
    *,
    may_use_topic_ids: bool,
) -> dict[FetchKey, FetchPartition]:
    """Return the position and the limit of each partition, in the order of `states`.

    The keys name topics by id if the broker takes ids and all ids are known, so that no record of
    a topic that was created again is read at a position in the old one.
    """
    ids = [_topic_id(state, metadata) for state in states]
    uses_ids = may_use_topic_ids and ZERO_TOPIC_ID not in ids
    wanted = {}
    for state, topic_id in zip(states, ids, strict=True):
        topic, partition = state.topic_partition
        held = metadata.partition(state.topic_partition)
        assert held is not None
        assert state.fetch_offset is not None
        key = (
            FetchKey(topic_id, "", partition)
            if uses_ids
            else FetchKey(ZERO_TOPIC_ID, topic, partition)
        )
        wanted[key] = FetchPartition(
            partition=state.topic_partition.partition,
            current_leader_epoch=held.leader_epoch,
            fetch_offset=state.fetch_offset,
            partition_max_bytes=config.max_partition_fetch_bytes,
        )
    return wanted


def _topic_id(state: PartitionState, metadata: ClusterMetadata) -> TopicId:
    """Return the id of the position's topic, or if uncertain of the topic in the metadata."""
    if state.topic_id != ZERO_TOPIC_ID:
        return state.topic_id
    return metadata.topics[state.topic_partition.topic].topic_id


def fetch_request(
    part: SessionPart, config: ConsumerConfig, max_bytes: int, max_wait_ms: int
) -> FetchRequest:
    """Return the Fetch request for `part`, limited to `max_bytes` and a wait of `max_wait_ms`."""
    by_topic: dict[tuple[TopicId, str], list[FetchPartition]] = {}
    for key, wanted in part.changed.items():
        by_topic.setdefault((key.topic_id, key.topic), []).append(wanted)
    forgotten: dict[tuple[TopicId, str], list[int]] = {}
    for key in part.forgotten:
        forgotten.setdefault((key.topic_id, key.topic), []).append(key.partition)
    is_committed = config.isolation_level == "read_committed"
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=READ_COMMITTED if is_committed else READ_UNCOMMITTED,
        session_id=part.session_id,
        session_epoch=part.session_epoch,
        topics=[
            FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic_id, topic), partitions in by_topic.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, topic_id=topic_id, partitions=indexes)
            for (topic_id, topic), indexes in forgotten.items()
        ],
        rack_id=config.client_rack,
    )
