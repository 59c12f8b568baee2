"""The interface of compaction for code that truncates or moves logs (decision: an interface).

`storage.compaction.manager` has the implementation.
"""

from typing import Protocol

from kafkawire.ids import TopicPartition


class Cleaning(Protocol):
    """Control over the cleaning of single partitions."""

    def pause(self, partition: TopicPartition) -> None:
        """Abort the cleaning of a partition and start none until `resume`."""

    def resume(self, partition: TopicPartition) -> None:
        """Undo one `pause`."""


class NoCleaning:
    """A stand-in for brokers and tests without compaction."""

    def pause(self, partition: TopicPartition) -> None:
        """Do nothing."""

    def resume(self, partition: TopicPartition) -> None:
        """Do nothing."""
