"""Checks across the files of one partition. Decision: no I/O."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kafkawire.records import BatchHeader
from ottla.cli.logs.finding import Damage, Finding, Report


class Gap(NamedTuple):
    """Missing offsets from `first` to `end` (exclusive), before the batch at `position`."""

    first: int
    end: int
    position: int


class EpochRun(NamedTuple):
    """Offset range of adjacent batches with the same leader epoch; `end` is exclusive."""

    epoch: int
    base_offset: int
    end: int


@dataclass(slots=True)
class SegmentExtent:
    """Offset range of a segment, with its gaps and its runs of leader epochs."""

    file: str
    base_offset: int
    next_offset: int
    epoch_runs: list[EpochRun] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    is_compacted: bool = False
    """Whether a batch has fewer records than offsets, which only a cleaner causes."""
    is_damaged: bool = False
    """Whether some batches could not be read, so that their offsets seem to be missing."""
    first_offset: int | None = None

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the next batch of the file."""
        if self.first_offset is None:
            self.first_offset = header.base_offset
        elif header.base_offset > self.next_offset:
            self.gaps.append(Gap(self.next_offset, header.base_offset, position))
        runs = self.epoch_runs
        base_offset = header.base_offset
        if runs and runs[-1].epoch == header.leader_epoch:
            base_offset = runs.pop().base_offset
        runs.append(EpochRun(header.leader_epoch, base_offset, header.next_offset))
        self.is_compacted |= header.record_count <= header.last_offset_delta
        self.next_offset = max(self.next_offset, header.next_offset)


def check_order(segments: Sequence[SegmentExtent], report: Report) -> None:
    """Report segments whose offsets overlap the next segment."""
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


def check_gaps(
    segments: Sequence[SegmentExtent], cleaner_point: int | None, report: Report, note: Report
) -> None:
    """Report missing offsets that no cleaning explains.

    Without a `cleaner_point`, a log with traces of a cleaner counts as cleaned completely, because
    its cleanup policy may have changed since. A cleaner replaces segments before it writes its
    checkpoint, so a gap between the checkpoint and the active segment is only a note: the broker
    may be running, or may have been killed in between. Damaged segments disable the check, because
    their own findings explain the missing offsets.
    """
    if any(segment.is_damaged for segment in segments):
        return
    if cleaner_point is None and any(segment.is_compacted for segment in segments):
        return
    active = segments[-1].base_offset
    for segment, gap in _gaps(segments):
        if gap.end <= (cleaner_point or 0):
            continue
        finding = Finding(
            damage=Damage.MISSING_OFFSETS,
            file=segment.file,
            position=gap.position,
            offset=gap.first,
            text=f"the offsets {gap.first}..{gap.end - 1} are missing, but the log was not "
            f"cleaned from {cleaner_point or 0} on",
        )
        is_explained = cleaner_point is not None and gap.end <= active
        (note if is_explained else report)(finding)


def cleaned_end(segments: Sequence[SegmentExtent], cleaner_point: int | None) -> int:
    """Return the end of the part that a cleaner may have changed (see `check_gaps`)."""
    if cleaner_point is None:
        is_cleaned = any(segment.is_compacted for segment in segments)
        return segments[-1].next_offset if is_cleaned else 0
    traces = [segment.next_offset for segment in segments[:-1] if segment.is_compacted]
    traces += [gap.end for _segment, gap in _gaps(segments)]
    active = segments[-1].base_offset
    return active if any(cleaner_point < end <= active for end in traces) else cleaner_point


def _gaps(segments: Sequence[SegmentExtent]) -> Iterator[tuple[SegmentExtent, Gap]]:
    """Yield the gaps within and between segments, with the segment that follows each gap."""
    for previous, segment in pairwise([None, *segments]):
        assert segment is not None, "pairs begin with the first segment"
        if previous is not None and segment.first_offset is not None:
            between = Gap(previous.next_offset, segment.first_offset, 0)
            if between.first < between.end:
                yield segment, between
        for gap in segment.gaps:
            yield segment, gap


def check_epochs(
    segments: Sequence[SegmentExtent],
    checkpoint: Sequence[tuple[int, int]],
    file: str,
    report: Report,
) -> None:
    """Report every entry of the checkpoint that batches contradict, once each.

    All batches from an entry's offset to the next entry's must have its epoch. Batches before the
    first entry are exempt, because the checkpoint begins at the log start offset.
    """
    starts = [start for _epoch, start in checkpoint]
    reported: set[int] = set()
    for segment in segments:
        for epoch, offset, end in segment.epoch_runs:
            first = max(bisect_right(starts, offset) - 1, 0)
            for slot in range(first, bisect_left(starts, end)):
                if checkpoint[slot][0] == epoch or slot in reported:
                    continue
                reported.add(slot)
                text = (
                    f"epoch {checkpoint[slot][0]} from offset {starts[slot]} on, but the batches "
                    f"{offset}..{end - 1} in {segment.file} have epoch {epoch}"
                )
                report(_wrong(file, max(offset, starts[slot]), text, position=slot + 3))


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Checkpoints of one partition; a value is None if its file has no entry."""

    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_point: int | None = None


def check_checkpoints(
    checkpoints: Checkpoints,
    segments: Sequence[SegmentExtent],
    files: Mapping[str, str],
    report: Report,
) -> None:
    """Report checkpoints that contradict each other or the log.

    Invariants: log start offset <= high watermark <= log end offset; recovery point <= log end
    offset; cleaner point <= base offset of the active segment.
    """
    log_end_offset, active = segments[-1].next_offset, segments[-1].base_offset
    limits = {
        "log_start_offset": (checkpoints.log_start_offset, log_end_offset, "log end offset"),
        "recovery_point": (checkpoints.recovery_point, log_end_offset, "log end offset"),
        "high_watermark": (checkpoints.high_watermark, log_end_offset, "log end offset"),
        "cleaner_point": (checkpoints.cleaner_point, active, "active segment's base offset"),
    }
    for name, (offset, limit, noun) in limits.items():
        if offset is not None and offset > limit:
            report(_wrong(files[name], offset, f"{offset} lies beyond the {noun} {limit}"))
    start, watermark = checkpoints.log_start_offset, checkpoints.high_watermark
    if start is not None and watermark is not None and watermark < start:
        text = f"the high watermark {watermark} lies before the log start offset {start}"
        report(_wrong(files["high_watermark"], watermark, text))


def _wrong(file: str, offset: int, text: str, position: int = 0) -> Finding:
    return Finding(
        damage=Damage.WRONG_CHECKPOINT, file=file, position=position, offset=offset, text=text
    )
