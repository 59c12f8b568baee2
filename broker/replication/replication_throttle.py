"""Rate limit for the replication of partitions that an operator throttles (decision).

A topic lists its throttled replicas (`leader.` and `follower.replication.throttled.replicas`, as
PARTITION:BROKER or `*`), and each broker has a rate for each side. Only lagging replicas are
delayed. The bytes of the others count, but a delay would push healthy replicas out of the in-sync
set. Source: KIP-73; ReplicationQuotaManager of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from broker.quotas.rate import Rate
from kafkawire.ids import BrokerId, TopicPartition
from storage.config.config_key import LONG_MAX
from storage.config.log_config import LogConfig

ALL: Final = ("*",)
LONGEST_PAUSE_MS: Final = 1000
"""Re-check interval of a throttled partition: the rate may have been raised."""


class _Log(Protocol):
    @property
    def config(self) -> LogConfig: ...


class Throttled(Protocol):
    """A replica, as far as a throttle needs it."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the replica."""

    @property
    def log(self) -> _Log:
        """Log of the replica, with the topic's configs."""


class ReplicationThrottle:
    """One side: the bytes that this broker sends to followers, or copies from leaders."""

    def __init__(self, broker_id: BrokerId, listed: Callable[[LogConfig], Sequence[str]]) -> None:
        """Throttle the replicas that `listed` reads from a topic's config."""
        self._broker_id = broker_id
        self._listed = listed
        self._bytes_per_second: float = LONG_MAX
        self._rate = Rate(is_padded=False)

    def set_rate(self, bytes_per_second: float) -> None:
        """Delay replicas beyond `bytes_per_second` from now on."""
        self._bytes_per_second = bytes_per_second

    def covers(self, replica: Throttled) -> bool:
        """Whether a replica on this broker is throttled."""
        listed = self._listed(replica.log.config)
        if not listed:
            return False
        wanted = f"{replica.topic_partition.partition}:{self._broker_id}"
        return tuple(listed) == ALL or wanted in listed

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were copied of a throttled replica."""
        self._rate.add(size_bytes, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """Return the delay before a lagging replica may be copied; 0 for no delay."""
        return min(self._rate.pause_ms(self._bytes_per_second, now_ms), LONGEST_PAUSE_MS)


def leader_throttle(broker_id: BrokerId) -> ReplicationThrottle:
    """Return the throttle of the bytes that this broker sends to followers."""
    return ReplicationThrottle(
        broker_id, lambda config: config.leader_replication_throttled_replicas
    )


def follower_throttle(broker_id: BrokerId) -> ReplicationThrottle:
    """Return the throttle of the bytes that this broker copies from leaders."""
    return ReplicationThrottle(
        broker_id, lambda config: config.follower_replication_throttled_replicas
    )
