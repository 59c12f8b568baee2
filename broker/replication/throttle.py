"""How fast partitions are copied that an operator wants copied slowly (decision).

A topic names its throttled replicas (`leader.` and `follower.replication.throttled.replicas`, as
PARTITION:BROKER or `*`), each broker has a rate for each side. Only whoever lags is held back: what
keeps up is counted, and goes on, or a throttle would push healthy replicas out of the in-sync set.
Source: KIP-73; ReplicationQuotaManager of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from broker.quotas.rate import Rate
from kafkawire.ids import BrokerId, TopicPartition
from storage.config import LogConfig
from storage.config_key import LONG_MAX

ALL: Final = ("*",)
LONGEST_PAUSE_MS: Final = 1000
"""So often a partition that is held back is looked at again: the rate may have been raised."""


class _Log(Protocol):
    @property
    def config(self) -> LogConfig: ...


class Throttled(Protocol):
    """What a throttle needs to know of a replica."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is of."""

    @property
    def log(self) -> _Log:
        """Its log, which knows the topic's configs."""


class ReplicationThrottle:
    """One side: what this broker sends to followers, or what it copies from leaders."""

    def __init__(self, broker_id: BrokerId, listed: Callable[[LogConfig], Sequence[str]]) -> None:
        """`listed` picks the topic config that names the throttled replicas."""
        self._broker_id = broker_id
        self._listed = listed
        self._bytes_per_second: float = LONG_MAX
        self._rate = Rate(is_padded=False)

    def set_rate(self, bytes_per_second: float) -> None:
        """Hold replicas back beyond so many bytes per second, from now on."""
        self._bytes_per_second = bytes_per_second

    def covers(self, replica: Throttled) -> bool:
        """Whether a replica on this broker is one of those to be copied slowly."""
        listed = self._listed(replica.log.config)
        if not listed:
            return False
        wanted = f"{replica.topic_partition.partition}:{self._broker_id}"
        return tuple(listed) == ALL or wanted in listed

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count what was copied of a replica that is covered."""
        self._rate.add(size_bytes, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """Return for how long nothing of a lagging replica should be copied; 0: go on."""
        return min(self._rate.excess_ms(self._bytes_per_second, now_ms), LONGEST_PAUSE_MS)


def leader_throttle(broker_id: BrokerId) -> ReplicationThrottle:
    """Return the throttle of what this broker sends."""
    return ReplicationThrottle(
        broker_id, lambda config: config.leader_replication_throttled_replicas
    )


def follower_throttle(broker_id: BrokerId) -> ReplicationThrottle:
    """Return the throttle of what this broker copies."""
    return ReplicationThrottle(
        broker_id, lambda config: config.follower_replication_throttled_replicas
    )
