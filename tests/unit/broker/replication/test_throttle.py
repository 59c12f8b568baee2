"""Which replicas are copied slowly, and how slowly: `broker.replication.throttle`."""

from dataclasses import dataclass

import pytest

from broker.replication.throttle import (
    LONGEST_PAUSE_MS,
    ReplicationThrottle,
    follower_throttle,
    leader_throttle,
)
from kafkawire.ids import BrokerId, TopicPartition
from storage.config import LogConfig

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
def test_which_replicas_are_copied_slowly(listed: str, partition: int, expected: bool) -> None:
    assert leader_throttle(B2).covers(replica(partition, leaders=listed)) is expected
    assert follower_throttle(B2).covers(replica(partition, followers=listed)) is expected
    assert not leader_throttle(B2).covers(replica(partition, followers=listed))


def made() -> ReplicationThrottle:
    return leader_throttle(B2)


def test_without_a_rate_nothing_waits() -> None:
    throttle = made()
    throttle.record(10**12, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == 0


def test_what_is_too_fast_waits_until_it_is_not() -> None:
    throttle = made()
    throttle.set_rate(1000)
    throttle.record(900, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == 0
    throttle.record(400, NOW_MS + 10)
    assert throttle.pause_ms(NOW_MS + 10) == 300
    assert throttle.pause_ms(NOW_MS + 1300) == 0


def test_a_long_pause_is_cut_so_that_a_new_rate_is_noticed() -> None:
    throttle = made()
    throttle.set_rate(1)
    throttle.record(10**6, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == LONGEST_PAUSE_MS
    throttle.set_rate(10**9)
    assert throttle.pause_ms(NOW_MS) == 0


def test_a_rate_of_nothing_stops_the_copying() -> None:
    throttle = made()
    throttle.set_rate(0)
    throttle.record(1, NOW_MS)
    assert throttle.pause_ms(NOW_MS) == LONGEST_PAUSE_MS
