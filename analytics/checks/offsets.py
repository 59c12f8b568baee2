"""Decision: S2, offsets only grow; a gap stands only where compaction has been.

A damaged batch's own words count for nothing: the check goes on behind it with what the next sound
one says.
"""

from typing import Final

from analytics.finding import Check, Finder, Report
from kafkawire.records import BatchHeader

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class OffsetCheck:
    """The batches of one log in the order of its files."""

    def __init__(self, report: Report, cleaned_until: int | None) -> None:
        """`cleaned_until` ends the part where gaps may be; None if that is not known."""
        self._finder = Finder(Check.OFFSETS, report)
        self._cleaned_until = cleaned_until
        self._file = ""
        self._segment_base = 0
        self.next_offset: int | None = None
        self._is_gap_excused = True
        self.damaged: list[tuple[int, int]] = []
        """Ranges of offsets (inclusive) that may stand in what could not be read."""

    def begin_segment(self, base_offset: int, file: str) -> None:
        """Go on with the next file, named by `base_offset`."""
        self._file = file
        self._segment_base = base_offset
        reached = self.next_offset
        if reached is not None and base_offset < reached:
            self._find("segment_overlap", 0, base_offset, f"{reached} or more", str(base_offset))
        elif reached is not None:
            self._check_gap(0, reached, base_offset)
            # What is damaged before has no offset from here on.
            self._is_gap_excused = False
        if reached is None or base_offset > reached:
            self.next_offset = base_offset

    def check(self, position: int, header: BatchHeader) -> bool:
        """Whether a sound batch stands where its offsets belong; if not, that is reported."""
        reached = self.next_offset or 0
        first, last = header.base_offset, header.last_offset
        if first < self._segment_base:
            expected = f"{self._segment_base} or more, by the file's name"
            self._find("offset_below_segment", position, first, expected, str(first))
            return False
        if first < reached:
            self._find("offset_overlap", position, first, f"{reached} or more", f"{first}..{last}")
            return False
        if last - self._segment_base > MAX_RELATIVE_OFFSET:
            expected = f"at most {MAX_RELATIVE_OFFSET} beyond {self._segment_base}"
            self._find("offset_too_far", position, first, expected, str(last))
            return False
        if first != reached or self.damaged:
            self._check_gap(position, reached, first)
        self._is_gap_excused = False
        self.next_offset = last + 1
        return True

    def skip_damage(self) -> None:
        """Note that something unreadable stands here, so that the next gap says nothing."""
        self._is_gap_excused = True
        reached = self.next_offset or 0
        if not self.damaged or self.damaged[-1][1] >= 0:
            self.damaged.append((reached, -1))

    def excuse_gap(self) -> None:
        """Note that the last batch's end is wrong, which is reported: the next gap says nothing."""
        self._is_gap_excused = True

    def finish(self, end_offset: int) -> None:
        """Close the range of a damage that reaches to the end of the log."""
        if self.damaged and self.damaged[-1][1] < 0:
            self.damaged[-1] = (self.damaged[-1][0], end_offset)

    def is_damaged(self, offset: int) -> bool:
        """Whether `offset` may stand in what could not be read."""
        return any(first <= offset <= last for first, last in self.damaged)

    def _close_damage(self, next_offset: int) -> None:
        """End the range of a damage where the log goes on, at `next_offset`."""
        if self.damaged and self.damaged[-1][1] < 0:
            start, _ = self.damaged.pop()
            if next_offset > start:
                self.damaged.append((start, next_offset - 1))

    def _check_gap(self, position: int, reached: int, first: int) -> None:
        self._close_damage(first)
        is_cleaned = self._cleaned_until is None or reached < self._cleaned_until
        if first > reached and not is_cleaned and not self._is_gap_excused:
            self._find("offset_gap", position, first, f"offset {reached}", f"offset {first}")

    def _find(self, what: str, position: int, offset: int, expected: str, found: str) -> None:
        self._finder.find(what, self._file, position, offset, expected, found)
