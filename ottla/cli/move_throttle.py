"""Throttles for moves of partitions (decision), as kafka-reassign-partitions.sh sets them.

A broker has two rates: for records that it sends as leader, and for records that it copies as
follower. A topic lists the replicas to which they apply, so that ordinary replication stays fast.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkawire.ids import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
ALL_REPLICAS: Final = "*"

Replicas = Mapping[TopicPartition, Sequence[int]]


def broker_changes(rate: int | None) -> dict[str, str | None]:
    """Return the config changes of each broker; None removes the throttle."""
    text = None if rate is None else str(rate)
    return {LEADER_RATE: text, FOLLOWER_RATE: text}


def throttled_brokers(current: Replicas, targets: Replicas) -> list[int]:
    """Return the brokers that take part in the moves, sorted."""
    taking_part = {broker for each in targets for broker in (*current[each], *targets[each])}
    return sorted(taking_part)


def topic_changes(
    topic: str,
    current: Replicas,
    targets: Replicas,
    *,
    listed: Mapping[str, str],
    moving: Iterable[TopicPartition],
) -> dict[str, str]:
    """Return the config changes of a topic: old replicas send, and added ones copy, at the rate.

    Of the present configs, `listed`, the replicas of other partitions in `moving` stay.
    """
    moves = sorted(each for each in targets if each.topic == topic)
    others = {each.partition for each in moving if each.topic == topic} - {
        each.partition for each in moves
    }

    def changed(key: str, replicas: Replicas) -> str:
        known = listed.get(key, "")
        if known == ALL_REPLICAS:
            return known
        return ",".join([*_kept(known, others), *_texts(replicas)])

    sending = {each: current[each] for each in moves}
    copying = {each: [one for one in targets[each] if one not in current[each]] for each in moves}
    return {
        LEADER_REPLICAS: changed(LEADER_REPLICAS, sending),
        FOLLOWER_REPLICAS: changed(FOLLOWER_REPLICAS, copying),
    }


def topic_reset() -> dict[str, str | None]:
    """Return the config changes of a topic without throttled replicas."""
    return {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}


def _kept(listed: str, partitions: Collection[int]) -> list[str]:
    wanted = {str(each) for each in partitions}
    return [text for text in listed.split(",") if text.partition(":")[0] in wanted]


def _texts(replicas: Replicas) -> list[str]:
    return [
        f"{each.partition}:{broker}" for each, brokers in replicas.items() for broker in brokers
    ]
