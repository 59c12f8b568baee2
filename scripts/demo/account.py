"""Acknowledged and read records of a test load (decision)."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from kafkawire.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that the cluster acknowledged at `at_s` (monotonic seconds)."""

    where: TopicPartition
    offset: int
    value: bytes
    at_s: float


@dataclass(slots=True)
class Account:
    """A history of one producer and one consumer."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    reads: Counter[tuple[TopicPartition, int, bytes]] = field(default_factory=Counter)

    def missing(self) -> list[Acknowledged]:
        """Return the acknowledged records not yet read at their offset."""
        return [a for a in self.acknowledged if not self.reads[a.where, a.offset, a.value]]

    def repeated(self) -> list[Acknowledged]:
        """Return the acknowledged records read more than once at their offset."""
        return [a for a in self.acknowledged if self.reads[a.where, a.offset, a.value] > 1]

    def duplicate_count(self) -> int:
        """Return the number of extra copies in the log, written again after a lost response."""
        values = Counter(value for _where, _offset, value in self.reads)
        return sum(count - 1 for count in values.values())

    def pause_s(self, where: set[TopicPartition], since_s: float) -> float:
        """Return the longest time between two acknowledgements of a partition in `where`.

        Only pauses that end after `since_s` count.
        """
        longest = 0.0
        for partition in where:
            times = [a.at_s for a in self.acknowledged if a.where == partition]
            gaps = [
                later - earlier for earlier, later in itertools.pairwise(times) if later >= since_s
            ]
            longest = max([longest, *gaps])
        return longest
