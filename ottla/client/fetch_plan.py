"""Which partitions to fetch from which broker, and how much of them. Decision: no I/O.

Invariant: what is buffered plus what the plans of one moment may bring stays within
`prefetch_max_bytes`, but for one batch per partition that is larger than its limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from kafkawire.ids import BrokerId
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.client.config import ConsumerConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.partition_state import PartitionState


@dataclass(slots=True)
class Plan:
    """What can be asked for now, and what keeps the rest."""

    fetches: dict[BrokerId, list[PartitionState]]
    lookups: list[PartitionState]
    """Partitions whose position is to be looked up."""
    is_leaderless: bool
    """Some partition has no known leader."""
    look_again_at_s: float


def make_plan(
    states: Iterable[PartitionState],
    metadata: ClusterMetadata,
    config: ConsumerConfig,
    now_s: float,
) -> Plan:
    """Return what to ask for; a partition with a request under way is never in it."""
    plan = Plan(fetches={}, lookups=[], is_leaderless=False, look_again_at_s=inf)
    for state in states:
        if state.has_request or state.is_paused or state.error is not None:
            continue
        if state.retry_at_s > now_s:
            plan.look_again_at_s = min(plan.look_again_at_s, state.retry_at_s)
            continue
        leader = metadata.leader(state.topic_partition)
        if leader is None:
            plan.is_leaderless = True
        elif state.fetch_offset is None:
            plan.lookups.append(state)
        elif state.buffered_bytes <= config.max_partition_fetch_bytes:
            plan.fetches.setdefault(leader, []).append(state)
    return plan


def fetch_request(
    states: Iterable[PartitionState],
    metadata: ClusterMetadata,
    config: ConsumerConfig,
    room_bytes: int,
) -> FetchRequest:
    """Return the request for `states`, which may bring `room_bytes` at most."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for state in states:
        held = metadata.partition(state.topic_partition)
        assert held is not None
        assert state.fetch_offset is not None
        wanted = FetchPartition(
            partition=state.topic_partition.partition,
            current_leader_epoch=held.leader_epoch,
            fetch_offset=state.fetch_offset,
            partition_max_bytes=config.max_partition_fetch_bytes,
        )
        by_topic.setdefault(state.topic_partition.topic, []).append(wanted)
    is_committed = config.isolation_level == "read_committed"
    return FetchRequest(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=min(config.fetch_max_bytes, room_bytes),
        isolation_level=READ_COMMITTED if is_committed else READ_UNCOMMITTED,
        topics=[
            FetchTopic(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()
        ],
    )
