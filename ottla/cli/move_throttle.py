"""Throttles for moves of partitions (decision), as kafka-reassign-partitions.sh sets them.

A broker has two rates: for records that it sends as leader, and for records that it copies as
follower. A topic lists the replicas to which they apply, so that ordinary replication stays fast.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkawire.ids import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

Replicas = Mapping[TopicPartition, Sequence[int]]


def broker_changes(rate: int | None) -> dict[str, str | None]:
    """Return the config changes of each broker; None removes the throttle."""
    text = None if rate is None else str(rate)
    return {LEADER_RATE: text, FOLLOWER_RATE: text}


def throttled_brokers(current: Replicas, targets: Replicas) -> list[int]:
    """Return the brokers that take part in the moves, sorted."""
    taking_part = {broker for each in targets for broker in (*current[each], *targets[each])}
    return sorted(taking_part)


def topic_changes(current: Replicas, targets: Replicas) -> dict[str, dict[str, str | None]]:
    """Return the config changes by topic: old replicas send, and added ones copy, at the rate."""
    changes: dict[str, dict[str, str | None]] = {}
    for topic in sorted({each.topic for each in targets}):
        moves = sorted(each for each in targets if each.topic == topic)
        changes[topic] = {
            LEADER_REPLICAS: _listed((each, current[each]) for each in moves),
            FOLLOWER_REPLICAS: _listed(
                (each, [one for one in targets[each] if one not in current[each]]) for each in moves
            ),
        }
    return changes


def topic_reset() -> dict[str, str | None]:
    """Return the config changes of a topic without throttled replicas."""
    return {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}


def _listed(replicas: Iterable[tuple[TopicPartition, Sequence[int]]]) -> str:
    return ",".join(
        f"{each.partition}:{broker}" for each, brokers in replicas for broker in brokers
    )
