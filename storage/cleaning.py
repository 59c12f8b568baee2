"""What those who cut and move logs ask of whoever compacts them (decision: an interface).

`storage.compaction.manager` has the real one.
"""

from typing import Protocol

from kafkawire.ids import TopicPartition


class Cleaning(Protocol):
    """What compaction does meanwhile to logs that are here."""

    def pause(self, partition: TopicPartition) -> None:
        """Throw away what is being cleaned of a log, and clean nothing of it until `resume`."""

    def resume(self, partition: TopicPartition) -> None:
        """Undo one `pause`."""


class NoCleaning:
    """Nothing is compacted."""

    def pause(self, partition: TopicPartition) -> None:
        """Do nothing."""

    def resume(self, partition: TopicPartition) -> None:
        """Do nothing."""
