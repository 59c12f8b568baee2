"""Decision: S3, leader epochs never go back, and change where the epoch checkpoint says.

Where a log was cleaned, the batches that began an epoch may be gone: so each batch has to lie
within the range that the checkpoint gives its epoch, and need not begin it.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analytics.finding import Check, Finder, Report
from kafkawire.records import BatchHeader


@dataclass(slots=True)
class _Run:
    """Batches of one epoch, one after the other."""

    epoch: int
    first_offset: int
    last_offset: int
    file: str
    position: int


class EpochCheck:
    """The batches of one log in the order of its files."""

    def __init__(self, report: Report) -> None:
        self._finder = Finder(Check.EPOCHS, report)
        self._runs: list[_Run] = []

    def add(self, file: str, position: int, header: BatchHeader) -> None:
        """Take over one more sound batch."""
        runs, epoch, offset = self._runs, header.leader_epoch, header.base_offset
        if runs and epoch == runs[-1].epoch:
            runs[-1].last_offset = header.last_offset
        else:
            runs.append(_Run(epoch, offset, header.last_offset, file, position))

    def conclude(
        self,
        checkpoint: Sequence[tuple[int, int, int]],
        file: str,
        log_end_offset: int,
        *,
        begun: Collection[tuple[int, int]],
    ) -> None:
        """Report where epochs go back, or contradict the checkpoint's (line, epoch, start).

        The checkpoint begins at the log start, so what stands before its first entry says nothing.
        A batch that the checkpoint calls wrong is no measure for those behind it. Of the entries
        only those in `begun`, which were there before the log was read, have to begin within it: a
        broker that writes meanwhile may have begun others.
        """
        starts = [start for _, _, start in checkpoint]
        epoch_so_far = -1
        for run in self._runs:
            first = bisect_right(starts, run.first_offset) - 1
            last = bisect_right(starts, run.last_offset) - 1
            found = f"epoch {run.epoch}"
            place = run.file, run.position, run.first_offset
            if run.epoch < epoch_so_far:
                self._finder.find("epoch_back", *place, f"epoch {epoch_so_far} or later", found)
            elif first >= 0 and checkpoint[first][1] != run.epoch:
                expected = f"epoch {checkpoint[first][1]}, by the checkpoint"
                self._finder.find("epoch_start", *place, expected, found)
            else:
                epoch_so_far = run.epoch
                if last > first >= 0:
                    line, epoch, start = checkpoint[first + 1]
                    expected = f"a start behind {run.last_offset}, where epoch {run.epoch} ends"
                    found = f"epoch {epoch} from {start}"
                    self._finder.find("epoch_start", file, line, start, expected, found)
        for line, epoch, start in checkpoint:
            if start > log_end_offset and (epoch, start) in begun:
                expected = f"a start up to the log's end {log_end_offset}"
                found = f"epoch {epoch} from {start}"
                self._finder.find("epoch_beyond", file, line, start, expected, found)
