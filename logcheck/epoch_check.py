"""S3: leader epochs never go back, and change at the offsets of the epoch checkpoint (decision).

A cleaner may have removed the first batches of an epoch. So each batch must lie within its epoch's
range in the checkpoint, but no batch need begin that range.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kafkawire.records import BatchHeader
from logcheck.checkpoint_text import has_all_lines, read_epoch_checkpoint
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.history import History
from logcheck.replica_files import ReadBytes, read_reported


@dataclass(slots=True)
class Run:
    """Consecutive batches of one epoch."""

    epoch: int
    first_offset: int
    last_offset: int
    file: str
    position: int


class EpochCheck:
    """The check of the batches of one log, in log order."""

    def __init__(self, report: Report) -> None:
        self._finder = Finder(Check.EPOCHS, report)
        self.runs: list[Run] = []
        """The epochs of the log, in log order."""

    def add(self, file: str, position: int, header: BatchHeader) -> None:
        """Add a sound batch."""
        runs, epoch, offset = self.runs, header.leader_epoch, header.base_offset
        if runs and epoch == runs[-1].epoch:
            runs[-1].last_offset = header.last_offset
        else:
            runs.append(Run(epoch, offset, header.last_offset, file, position))

    def continue_to(self, last_offset: int) -> None:
        """Add further batches of the same epoch, up to `last_offset`."""
        self.runs[-1].last_offset = last_offset

    def conclude(
        self,
        checkpoint: Sequence[tuple[int, int, int]],
        file: str,
        log_end_offset: int,
        history: History,
        *,
        begun: Collection[tuple[int, int]],
    ) -> None:
        """Report epochs that go back, or contradict the `checkpoint` of (line, epoch, start).

        A batch that contradicts the checkpoint is not compared with the batches after it. `begun`
        contains the (epoch, start) entries from before the log was read. Only they must begin
        within the log, because a broker that writes meanwhile may have added others.
        """
        starts = [start for _, _, start in checkpoint]
        self._check_beginning(starts, file, log_end_offset, history)
        if checkpoint:
            self._check_first(checkpoint[0], file, history)
        epoch_so_far = -1
        for run in self.runs:
            first = bisect_right(starts, run.first_offset) - 1
            last = bisect_right(starts, run.last_offset) - 1
            found = f"epoch {run.epoch}"
            place = run.file, run.position, run.first_offset
            if run.epoch < epoch_so_far:
                self._finder.find(
                    Damage.EPOCH_BACK, *place, f"epoch {epoch_so_far} or later", found
                )
            elif first >= 0 and checkpoint[first][1] != run.epoch:
                expected = f"epoch {checkpoint[first][1]}, by the checkpoint"
                # The checkpoint may be older than the log: in a live copy, or after power loss.
                is_newer = first == len(starts) - 1 and run.epoch > checkpoint[first][1]
                is_unsure = is_newer and not history.is_flushed(run.first_offset)
                severity = Severity.NOTE if is_unsure else Severity.ERROR
                self._finder.find(Damage.EPOCH_START, *place, expected, found, severity)
            else:
                epoch_so_far = run.epoch
                if last > first >= 0:
                    line, epoch, start = checkpoint[first + 1]
                    expected = f"a start above {run.last_offset}, the end of epoch {run.epoch}"
                    found = f"epoch {epoch} from {start}"
                    self._finder.find(Damage.EPOCH_START, file, line, start, expected, found)
        for line, epoch, start in checkpoint:
            if start > log_end_offset and (epoch, start) in begun:
                expected = f"a start up to the log end offset {log_end_offset}"
                found = f"epoch {epoch} from {start}"
                # A follower stores the epochs of an append before its batches.
                severity = history.beyond(log_end_offset)
                self._finder.find(Damage.EPOCH_BEYOND, file, line, start, expected, found, severity)

    def _check_beginning(
        self, starts: Sequence[int], file: str, log_end_offset: int, history: History
    ) -> None:
        """Report batches without an entry, unless they may be newer than the checkpoint."""
        known = (each for each in self.runs if each.epoch >= 0)
        run = next((each for each in known if each.first_offset >= history.log_start), None)
        if run is None or not history.is_flushed(run.first_offset):
            return
        if starts:
            is_late = starts[0] > run.first_offset
            severity = history.epochs_from(starts[0]) if is_late else None
        else:
            severity = history.no_epochs(log_end_offset)
        if severity is not None:
            expected = f"an entry for epoch {run.epoch}"
            found = f"a first entry from {starts[0]}" if starts else "no entries"
            place = file or run.file, None, run.first_offset
            self._finder.find(Damage.EPOCH_START, *place, expected, found, severity)

    def _check_first(self, entry: tuple[int, int, int], file: str, history: History) -> None:
        """Report a first entry from before the log: its segments are gone, but not by retention.

        A broker cuts the entries at each new log start, and stores them before it stops. Kafka does
        so in the background, and drops that task when it stops, as it drops the deletion of the
        segments. Entries for remote segments in tiered storage stay.

        Source: LeaderEpochFileCache.truncateFromStartAsyncFlush of Kafka 3.9.
        """
        line, epoch, start = entry
        if history.was_stopped and start < history.first_base_offset:
            expected = f"a first epoch from the log start {history.first_base_offset}"
            found, place = f"epoch {epoch} from {start}", (file, line, start)
            severity = Severity.NOTE if history.was_cut else Severity.WARNING
            self._finder.find(Damage.EPOCH_START, *place, expected, found, severity)


class EpochCheckpoint:
    """The leader epoch checkpoint of one log: read before the log, and again after it."""

    def __init__(self, file: str | None, read_bytes: ReadBytes, report: Report) -> None:
        """Read the entries in `file`, so that none of them can lie beyond the log as read."""
        self._file = file
        self._read_bytes = read_bytes
        self._report = report
        self._begun = {
            (epoch, start) for _, epoch, start in _entries(file, read_bytes, lambda _: None)
        }

    def conclude(
        self, check: EpochCheck, log_end_offset: int, history: History, *, is_end_known: bool
    ) -> None:
        """Compare the log with the file, which is read again.

        A broker writes the epoch entry before its first batch. Without a known end of the log, no
        entry lies beyond it.
        """
        begun = self._begun if is_end_known else set()
        entries = _entries(self._file, self._read_bytes, self._report)
        check.conclude(entries, self._file or "", log_end_offset, history, begun=begun)


def first_epoch_start(file: str | None, read_bytes: ReadBytes) -> int | None:
    """Return the start offset of the first entry in a checkpoint, if it has one."""
    entries = _entries(file, read_bytes, lambda _: None)
    return entries[0][2] if entries else None


def _entries(file: str | None, read_bytes: ReadBytes, report: Report) -> list[tuple[int, int, int]]:
    if file is None:
        return []
    data = read_reported(read_bytes, file, report) or b""
    if not has_all_lines(data):
        # A running broker adds an entry in place: this may be the new content in the old size.
        data = read_reported(read_bytes, file, report) or b""
    return read_epoch_checkpoint(data, file, report)
