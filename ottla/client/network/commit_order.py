"""The order of the commits to one group (decision).

Calls may overlap, and a call whose request failed sends it again later. Invariant: a repeated
request never replaces the offset of a later call.
"""

from collections.abc import Iterable

from kafkawire.ids import TopicPartition


class CommitOrder:
    """The calls that are underway, numbered from 1 on, and the partitions that each has stored."""

    def __init__(self) -> None:
        self._count = 0
        # Ascending numbers, by partition.
        self._underway: dict[TopicPartition, dict[int, None]] = {}
        self._stored: dict[TopicPartition, int] = {}

    def begin(self, partitions: Iterable[TopicPartition]) -> int:
        """Return the number of a new call."""
        self._count += 1
        for each in partitions:
            self._underway.setdefault(each, {})[self._count] = None
        return self._count

    def on_stored(self, number: int, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has stored the offsets of a call for these partitions."""
        for each in partitions:
            self._stored[each] = max(number, self._stored.get(each, number))

    def left(self, number: int, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions for which no later call has stored an offset."""
        return [each for each in partitions if self._stored.get(each, number) <= number]

    def is_followed(self, number: int, partitions: Iterable[TopicPartition]) -> bool:
        """Whether a later call for one of the partitions is underway."""
        return any(next(reversed(self._underway[each])) > number for each in partitions)

    def end(self, number: int, partitions: Iterable[TopicPartition]) -> None:
        """Forget a call, given the partitions that it began with."""
        for each in partitions:
            underway = self._underway[each]
            del underway[number]
            if not underway:
                del self._underway[each]
                self._stored.pop(each, None)
