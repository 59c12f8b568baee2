"""The partitions and ranges of a query, by the filters that Spark pushes down (decision)."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from analytics.segment_range import SegmentRange


class Wanted:
    """The records that the filters of one query accept."""

    def __init__(self) -> None:
        self._equal: dict[str, Any] = {}
        self._first_offset = 0
        self.end_offset: int | None = None
        """End of the wanted offsets (exclusive); None means no end."""

    def equal(self, column: str, value: Any) -> bool:
        """Accept the filter `column = value`; return whether Spark need not apply it again."""
        if column == "offset":
            self.at_least(column, value)
            self.at_most(column, value)
        if column not in ("topic", "partition") or column in self._equal:
            return False
        self._equal[column] = value
        return True

    def at_least(self, column: str, value: Any) -> None:
        """Accept a lower bound (inclusive); ranges below it are skipped."""
        if column == "offset":
            self._first_offset = max(self._first_offset, value)

    def at_most(self, column: str, value: Any) -> None:
        """Accept an upper bound (inclusive); ranges above it are skipped."""
        if column == "offset":
            end = value + 1
            self.end_offset = end if self.end_offset is None else min(self.end_offset, end)

    def is_wanted(self, topic: str, partition: int) -> bool:
        """Whether the partition may contain wanted records."""
        mine = {"topic": topic, "partition": partition}
        return all(mine[column] == value for column, value in self._equal.items())

    def choose(self, ranges: Sequence[SegmentRange]) -> Iterator[SegmentRange]:
        """Yield the ranges that may contain wanted records; `ranges` are grouped by replica."""
        for this, following in zip_longest(ranges, ranges[1:]):
            is_last = following is None or (
                (following.topic, following.partition, following.replica)
                != (this.topic, this.partition, this.replica)
            )
            if not is_last and following.first_offset <= self._first_offset:
                continue
            if self.end_offset is not None and this.first_offset >= self.end_offset:
                continue
            yield this
