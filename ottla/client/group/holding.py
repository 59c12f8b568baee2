"""The interface of a group session to the partitions of its consumer. Decision: no I/O."""

from collections.abc import Iterable
from typing import Protocol

from kafkawire.ids import TopicPartition


class Holding(Protocol):
    """The partitions that a consumer reads."""

    def owned(self) -> list[TopicPartition]:
        """Return the partitions that are read now."""

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Also read these partitions, from the committed offsets of the group."""

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their fetched records."""

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh, in addition to the topics being read."""

    async def commit_processed(self) -> None:
        """Commit the positions after processed records if auto-commit is on; never raises."""
