"""Checks that span the files of one partition. Decision: no I/O."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafkawire.records import BatchHeader
from ottla.cli.logs.finding import Damage, Finding, Report


@dataclass(slots=True)
class SegmentExtent:
    """What a segment covers: offsets, and where leader epochs begin in it."""

    file: str
    base_offset: int
    next_offset: int
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)

    def add(self, header: BatchHeader) -> None:
        """Take the next batch of the file into account."""
        self.next_offset = max(self.next_offset, header.next_offset)
        if not self.epoch_starts or self.epoch_starts[-1][0] != header.leader_epoch:
            self.epoch_starts.append((header.leader_epoch, header.base_offset))


def check_order(segments: Sequence[SegmentExtent], report: Report) -> None:
    """Report segments whose offsets reach into the next one's."""
    for segment, following in pairwise(segments):
        if segment.next_offset > following.base_offset:
            text = (
                f"begins at {following.base_offset}, but {segment.file} reaches up to "
                f"{segment.next_offset - 1}"
            )
            report(
                Finding(
                    damage=Damage.OVERLAPPING_OFFSETS,
                    file=following.file,
                    position=0,
                    offset=following.base_offset,
                    text=text,
                )
            )


def check_epochs(
    segments: Sequence[SegmentExtent],
    checkpoint: Sequence[tuple[int, int]],
    file: str,
    report: Report,
) -> None:
    """Report batches whose leader epoch is not the one that the checkpoint gives their offset.

    The checkpoint begins at the log start offset, so batches before its first entry say nothing.
    """
    starts = [start for _epoch, start in checkpoint]
    for segment in segments:
        for epoch, offset in segment.epoch_starts:
            slot = bisect_right(starts, offset) - 1
            if slot >= 0 and checkpoint[slot][0] != epoch:
                text = (
                    f"epoch {checkpoint[slot][0]} from offset {starts[slot]} on, but a batch in "
                    f"{segment.file} has epoch {epoch}"
                )
                report(
                    Finding(
                        damage=Damage.WRONG_CHECKPOINT,
                        file=file,
                        position=slot + 3,
                        offset=offset,
                        text=text,
                    )
                )


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What the checkpoints of a log directory say about one partition; None says nothing."""

    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None


def check_checkpoints(
    checkpoints: Checkpoints, log_end_offset: int, files: Mapping[str, str], report: Report
) -> None:
    """Report checkpoints that contradict each other or the log: start <= ... <= end."""
    limits = {
        "log_start_offset": checkpoints.log_start_offset,
        "recovery_point": checkpoints.recovery_point,
        "high_watermark": checkpoints.high_watermark,
    }
    for name, offset in limits.items():
        if offset is not None and offset > log_end_offset:
            text = f"{offset} lies behind the log's end {log_end_offset}"
            report(_wrong(files[name], offset, text))
    start, watermark = checkpoints.log_start_offset, checkpoints.high_watermark
    if start is not None and watermark is not None and watermark < start:
        text = f"the high watermark {watermark} lies before the log's start {start}"
        report(_wrong(files["high_watermark"], watermark, text))


def _wrong(file: str, offset: int, text: str) -> Finding:
    return Finding(damage=Damage.WRONG_CHECKPOINT, file=file, position=0, offset=offset, text=text)
