"""S2: offsets only grow, and none is missing that the log's history does not explain (decision).

The header of a damaged batch is not trusted: the check continues with the next sound batch.
"""

from bisect import bisect_right
from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import BatchHeader
from kafkawire.sentinels import MAX_OFFSET
from logcheck.finding import Check, Damage, Finder, Finding, Report
from logcheck.history import History, MissingRecords

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class OffsetCheck:
    """The check of the batches of one log, in log order."""

    def __init__(self, report: Report, history: History | None) -> None:
        """Without a `history` any offset may be missing, as in a segment on its own."""
        self._finder = Finder(Check.OFFSETS, report)
        self.missing = None if history is None else MissingRecords(history, report)
        self._file = ""
        self._segment_base = 0
        self.next_offset: int | None = None
        self._is_gap_excused = True
        self.damaged: list[tuple[int, int]] = []
        """Ranges of offsets (inclusive) that may lie in damaged parts of the log."""
        self.missing_count = 0
        """The number of offsets that are missing between batches, so far."""

    @property
    def has_damage(self) -> bool:
        """Whether batches may have been skipped because they are damaged, so far."""
        return bool(self.damaged)

    @property
    def is_behind_damage(self) -> bool:
        """Whether the next batch is the first one after damage."""
        return self.has_damage and self.damaged[-1][1] < 0

    @property
    def needs_keys(self) -> bool:
        """Whether the first batch without a key matters, and has not been seen yet."""
        missing = self.missing
        return missing is not None and not missing.has_record_without_key(self.next_offset or 0)

    def begin_segment(self, base_offset: int, file: str, *, is_gone: bool = False) -> None:
        """Continue with the next segment.

        The offsets of one that is gone may be in the segment before it, with which a cleaner has
        replaced both.
        """
        self._file = file
        self._segment_base = base_offset
        reached = self.next_offset
        if reached is not None and base_offset < reached:
            if not is_gone:
                self._find(
                    Damage.SEGMENT_OVERLAP, 0, base_offset, f"{reached} or more", str(base_offset)
                )
        elif reached is not None:
            self._check_gap(0, reached, base_offset)
            # Damage in an earlier segment contains no offset of this one.
            self._is_gap_excused = False
        if reached is None or base_offset > reached:
            self.next_offset = base_offset

    def check(self, position: int, header: BatchHeader) -> bool:
        """Return whether a sound batch continues the log; report it otherwise."""
        reached = self.next_offset or 0
        first, last = header.base_offset, header.last_offset
        if first < self._segment_base:
            expected = f"{self._segment_base} or more, by the file's name"
            self._find(Damage.OFFSET_BELOW_SEGMENT, position, first, expected, str(first))
            return False
        if first < reached:
            self._find(
                Damage.OFFSET_OVERLAP, position, first, f"{reached} or more", f"{first}..{last}"
            )
            return False
        if last - self._segment_base > MAX_RELATIVE_OFFSET:
            expected = f"at most {MAX_RELATIVE_OFFSET} beyond {self._segment_base}"
            self._find(Damage.OFFSET_TOO_FAR, position, first, expected, str(last))
            return False
        if first != reached or self.damaged:
            self._check_gap(position, reached, first)
        self._is_gap_excused = False
        self.next_offset = last + 1
        return True

    def continue_to(self, next_offset: int) -> None:
        """Continue behind batches that end there, each of which begins where the last one ends."""
        self._is_gap_excused = False
        self.next_offset = next_offset

    def skip_damage(self) -> None:
        """Record damage, which may explain the next gap."""
        self._is_gap_excused = True
        reached = self.next_offset or 0
        if not self.is_behind_damage:
            self.damaged.append((reached, -1))

    def excuse_gap(self) -> None:
        """Ignore the next gap: the last offset of the previous batch is wrong, and was reported."""
        self._is_gap_excused = True

    def on_unusual(self, batch: SoundBatch) -> None:
        """Look at a batch without all of its records, with a delete horizon or without keys."""
        if self.missing is None:
            return
        self.missing.on_batch(batch)
        header = batch.header
        if header.record_count <= header.last_offset_delta:
            self.missing.add(
                Finding(
                    check=Check.OFFSETS,
                    damage=Damage.RECORDS_MISSING,
                    file=batch.file,
                    position=batch.position,
                    offset=header.base_offset,
                    expected=f"{header.last_offset_delta + 1} records",
                    found=str(header.record_count),
                ),
                header.base_offset,
            )

    def finish(self) -> None:
        """Report missing records. Damage at the end of the log may hide all offsets beyond it."""
        if self.missing is not None:
            self.missing.conclude()
        if self.is_behind_damage:
            self.damaged[-1] = (self.damaged[-1][0], MAX_OFFSET)

    def is_damaged(self, offset: int) -> bool:
        """Whether `offset` may lie in a damaged part of the log."""
        slot = bisect_right(self.damaged, offset, key=lambda each: each[0]) - 1
        return slot >= 0 and offset <= self.damaged[slot][1]

    def _close_damage(self, next_offset: int) -> None:
        """End a damaged range before `next_offset`, where the log continues."""
        if self.is_behind_damage:
            start, _ = self.damaged.pop()
            if next_offset > start:
                self.damaged.append((start, next_offset - 1))

    def _check_gap(self, position: int, reached: int, first: int) -> None:
        self._close_damage(first)
        self.missing_count += max(first - reached, 0)
        if first > reached and self.missing is not None and not self._is_gap_excused:
            gap = Finding(
                check=Check.OFFSETS,
                damage=Damage.OFFSET_GAP,
                file=self._file,
                position=position,
                offset=first,
                expected=f"offset {reached}",
                found=f"offset {first}",
            )
            self.missing.add(gap, first - 1)

    def _find(self, damage: Damage, position: int, offset: int, expected: str, found: str) -> None:
        self._finder.find(damage, self._file, position, offset, expected, found)
