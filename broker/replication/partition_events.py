"""The changes of this broker's partitions, for the parts that wait for them (decision).

A part that changes a partition publishes the change here, and does not know the listeners. They
are called in the same turn of the event loop, after the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkawire.ids import LeaderEpoch, TopicPartition

Listener = Callable[[TopicPartition], None]


class LeadershipListener(Protocol):
    """A coordinator of groups or transactions, notified of the partitions led here."""

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Handle the start of a leadership here, in another epoch than before."""

    def on_resign(self, topic_partition: TopicPartition) -> None:
        """Handle the end of a leadership; also called for partitions that were not led here.

        A leadership also ends when this broker gets an epoch that is not the next one: another
        broker may have led in between. The start of the new one follows.
        """


class PartitionEvents:
    """Listeners subscribe with the `on_` methods; the other methods publish."""

    def __init__(self) -> None:
        # Tuples, because each append runs through the first one.
        self._change: tuple[Listener, ...] = ()
        self._isr_proposal: tuple[Listener, ...] = ()
        self._leadership: tuple[LeadershipListener, ...] = ()

    def on_change(self, listener: Listener) -> None:
        """Call `listener` with each partition whose log, offsets or role change."""
        self._change = (*self._change, listener)

    def on_isr_proposal(self, listener: Listener) -> None:
        """Call `listener` with each partition whose leadership has an ISR proposal to send."""
        self._isr_proposal = (*self._isr_proposal, listener)

    def on_leadership(self, listener: LeadershipListener) -> None:
        """Notify `listener` of every leadership that begins or ends here."""
        self._leadership = (*self._leadership, listener)

    def changed(self, topic_partition: TopicPartition) -> None:
        """Publish that a partition's log, offsets or role have changed."""
        for listener in self._change:
            listener(topic_partition)

    def isr_proposed(self, topic_partition: TopicPartition) -> None:
        """Publish that a leadership has an ISR proposal to send."""
        for listener in self._isr_proposal:
            listener(topic_partition)

    def became_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Publish that this broker now leads a partition."""
        self.changed(topic_partition)
        for listener in self._leadership:
            listener.on_become_leader(topic_partition, leader_epoch)

    def resigned(self, topic_partition: TopicPartition) -> None:
        """Publish that this broker does not lead a partition, or no longer."""
        self.changed(topic_partition)
        for listener in self._leadership:
            listener.on_resign(topic_partition)
