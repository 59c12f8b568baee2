"""What was acknowledged, and what was read. Decision: compares the two, and finds the pause."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from kafkawire.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Promise:
    """A record that the cluster acknowledged: where, what, and when (seconds)."""

    where: TopicPartition
    offset: int
    value: bytes
    at_s: float


@dataclass(slots=True)
class Account:
    """A history of one producer and one consumer."""

    promises: list[Promise] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    reads: Counter[tuple[TopicPartition, int, bytes]] = field(default_factory=Counter)

    def missing(self) -> list[Promise]:
        """Return what was acknowledged and not read yet at the place that was promised."""
        return [p for p in self.promises if not self.reads[p.where, p.offset, p.value]]

    def repeated(self) -> list[Promise]:
        """Return what was acknowledged, and read more than once at its place."""
        return [p for p in self.promises if self.reads[p.where, p.offset, p.value] > 1]

    def duplicate_count(self) -> int:
        """Return how many records are in the log once more, for their first answer was lost."""
        values = Counter(value for _where, _offset, value in self.reads)
        return sum(count - 1 for count in values.values())

    def pause_s(self, where: set[TopicPartition], since_s: float) -> float:
        """Return the longest time without an acknowledgement of a partition in `where`.

        Only pauses that end after `since_s` count.
        """
        longest = 0.0
        for partition in where:
            times = [p.at_s for p in self.promises if p.where == partition]
            gaps = [
                later - earlier for earlier, later in itertools.pairwise(times) if later >= since_s
            ]
            longest = max([longest, *gaps])
        return longest
