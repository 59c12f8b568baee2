"""Listeners of changed partitions: `broker.replication.partition_events`."""

from broker.replication.partition_events import PartitionEvents
from kafkawire.ids import LeaderEpoch, TopicPartition

T0 = TopicPartition("t", 0)


class Listener:
    """Notes the events, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        assert topic_partition == T0
        self.heard.append(f"leads in {leader_epoch}")

    def on_resign(self, topic_partition: TopicPartition) -> None:
        assert topic_partition == T0
        self.heard.append("resigns")


def test_every_listener_gets_the_events_it_subscribed_to() -> None:
    events, listener = PartitionEvents(), Listener()
    events.on_change(lambda _: listener.heard.append("changed"))
    events.on_change(lambda _: listener.heard.append("changed again"))
    events.on_isr_proposal(lambda _: listener.heard.append("proposes"))
    events.on_leadership(listener)
    events.changed(T0)
    events.isr_proposed(T0)
    events.became_leader(T0, LeaderEpoch(3))
    events.resigned(T0)
    both = ["changed", "changed again"]
    assert listener.heard == [*both, "proposes", *both, "leads in 3", *both, "resigns"]
