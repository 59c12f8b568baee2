"""Replication throttling: `broker.replication.replication_throttle`."""

from dataclasses import dataclass

import pytest

from broker.replication.replication_throttle import (
    LONGEST_PAUSE_MS,
    ReplicationThrottle,
    follower_throttle,
    leader_throttle,
)
from kafkawire.ids import BrokerId, TopicPartition
from storage.config.log_config import LogConfig

NOW_MS = 1_000_000
B2 = BrokerId(2)


@dataclass
class FakeLog:
    config: LogConfig


@dataclass
class FakeReplica:
    topic_partition: TopicPartition
    log: FakeLog


def replica(partition: int, leaders: str = "", followers: str = "") -> FakeReplica:
    config = LogConfig.from_properties(
        {
            "leader.replication.throttled.replicas": leaders,
            "follower.replication.throttled.replicas": followers,
        }
    )
    return FakeReplica(TopicPartition("t", partition), FakeLog(config))


@pytest.mark.parametrize(
    ("listed", "partition", "expected"),
    [
        ("", 0, False),
        ("*", 0, True),
        ("0:2,1:3", 0, True),
        ("0:2,1:3", 1, False),
        ("0:22,10:2", 0, False),
    ],
)
def test_throttle_covers_the_listed_replicas(listed: str, partition: int, expected: bool) -> None:
    assert leader_throttle(B2).covers(replica(partition, leaders=listed)) is expected
    assert follower_throttle(B2).covers(replica(partition, followers=listed)) is expected
    assert not leader_throttle(B2).covers(replica(partition, followers=listed))


def made() -> ReplicationThrottle:
    return leader_throttle(B2)


def test_no_replica_waits_without_a_rate() -> None:
    throttle = made()
    throttle.record(10**12, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == 0


def test_replica_above_the_rate_waits_until_below_it() -> None:
    throttle = made()
    throttle.set_rate(1000)
    throttle.record(900, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == 0
    throttle.record(400, NOW_MS + 10)
    assert throttle.pause_ms(NOW_MS + 10) == 300
    assert throttle.pause_ms(NOW_MS + 1300) == 0


def test_pause_is_limited_so_that_a_new_rate_takes_effect() -> None:
    throttle = made()
    throttle.set_rate(1)
    throttle.record(10**6, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == LONGEST_PAUSE_MS
    throttle.set_rate(10**9)
    assert throttle.pause_ms(NOW_MS) == 0


def test_zero_rate_stops_replication() -> None:
    throttle = made()
    throttle.set_rate(0)
    throttle.record(1, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == LONGEST_PAUSE_MS
