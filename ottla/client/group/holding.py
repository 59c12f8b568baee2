"""What a group member holds, as its session sees it. Decision: an interface."""

from collections.abc import Iterable
from typing import Protocol

from kafkawire.ids import TopicPartition


class Holding(Protocol):
    """The partitions that a consumer reads."""

    def owned(self) -> list[TopicPartition]:
        """Return what is read now."""

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these too, from where the group has committed."""

    def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; what was fetched of them is dropped."""

    def keep_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh, besides those that are read."""

    async def commit_processed(self) -> None:
        """Commit how far reading has come, if that is to be done by itself; never raises."""
