"""A throttle covers the replicas that move, and no others."""

from kafkawire.ids import TopicPartition
from ottla.cli.move_throttle import (
    broker_changes,
    throttled_brokers,
    topic_changes,
    topic_reset,
)

CURRENT = {
    TopicPartition("a", 0): (1, 2),
    TopicPartition("a", 1): (2, 3),
    TopicPartition("b", 0): (5,),
}
TARGETS = {TopicPartition("a", 0): (2, 4), TopicPartition("a", 1): (2, 3)}


LEADERS, FOLLOWERS = topic_reset()


def test_old_replicas_send_and_added_ones_copy_at_the_rate() -> None:
    listed = {LEADERS: "", FOLLOWERS: ""}
    assert topic_changes("a", CURRENT, TARGETS, listed=listed, moving=()) == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3",
        "follower.replication.throttled.replicas": "0:4",
    }


def test_partitions_that_move_already_keep_their_throttle() -> None:
    listed = {LEADERS: "0:9,2:1,3:1,12:5", FOLLOWERS: "2:6,3:7"}
    moving = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 3)]
    assert topic_changes("a", CURRENT, TARGETS, listed=listed, moving=moving) == {
        LEADERS: "2:1,0:1,0:2,1:2,1:3",
        FOLLOWERS: "2:6,0:4",
    }


def test_a_throttle_of_all_replicas_stays() -> None:
    listed = {LEADERS: "*", FOLLOWERS: ""}
    assert topic_changes("a", CURRENT, TARGETS, listed=listed, moving=()) == {
        LEADERS: "*",
        FOLLOWERS: "0:4",
    }


def test_every_broker_of_a_move_is_throttled() -> None:
    assert throttled_brokers(CURRENT, TARGETS) == [1, 2, 3, 4]
    assert broker_changes(1_000) == {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "1000",
    }


def test_a_throttle_can_be_removed() -> None:
    assert set(broker_changes(None).values()) == set(topic_reset().values()) == {None}
