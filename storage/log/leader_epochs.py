"""The leader epochs of a log and the offsets that each of them wrote (decision).

Invariant: epochs and start offsets both grow strictly from entry to entry. The entry of an epoch
holds the first offset of that leadership; its records end where the next entry begins.
Source: KIP-101, KIP-279.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkawire.ids import LeaderEpoch, Offset

UNDEFINED_EPOCH: Final = LeaderEpoch(-1)
UNDEFINED_OFFSET: Final = Offset(-1)


class EpochEntry(NamedTuple):
    """The leadership `epoch` wrote from `start_offset` on."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochs:
    """The leadership history of one log, truncated at both ends together with the log."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        """The newest epoch; a plain attribute, because every append reads it."""
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Record that `epoch` begins at `start_offset`; return whether the history changed.

        Entries that contradict the new one (a later epoch, or the same or a higher offset) are
        removed: they belong to a leadership without records in this log.
        """
        assert epoch >= 0, f"epoch {epoch}"
        assert start_offset >= 0, f"start offset {start_offset}"
        if epoch == self.latest and start_offset >= self._entries[-1].start_offset:
            return False
        while self._entries and (
            self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset
        ):
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch up to `epoch` and its end offset (exclusive).

        An epoch below all known ones ends at the first entry. The result for an epoch above all
        known ones, or for an empty history, is undefined: (-1, -1).
        """
        if epoch == self.latest and self._entries:
            return self.latest, log_end_offset
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if epoch < 0 or after == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        end_offset = self._entries[after].start_offset
        if after == 0:
            return LeaderEpoch(epoch), end_offset
        return self._entries[after - 1].epoch, end_offset

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that wrote `offset`, or -1 for an offset older than the history."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[slot].epoch if slot >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Remove epochs that begin at `end_offset` or later; return whether any did."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        return self._replace(kept)

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Remove offsets below `start_offset`; return whether the history changed.

        The epoch that wrote `start_offset` stays, and now begins there.
        """
        after = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if after == 0:
            return False
        survivor = EpochEntry(self._entries[after - 1].epoch, start_offset)
        return self._replace([survivor, *self._entries[after:]])

    def clear(self) -> bool:
        """Remove all entries; return whether there were any."""
        return self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> bool:
        changed = entries != self._entries
        self._entries = entries
        self.latest = entries[-1].epoch if entries else UNDEFINED_EPOCH
        return changed
