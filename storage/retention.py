"""Which segments of a log retention deletes (decision module, no I/O).

Segments go from the oldest on, as long as a rule wants them gone: those that lie below the log
start as a whole; then, if `cleanup.policy` has `delete`, those without which the log is still as
large as `retention.bytes`; then those whose newest record is older than `retention.ms`. The first
segment that stays protects all behind it. Never deleted: what reaches up to the high watermark or
beyond, and a last segment that is empty. The last segment goes like any other, if it has records.
Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from kafkawire.ids import Offset
from storage.config import DELETE, LogConfig


class SegmentFacts(Protocol):
    """What is known of a segment without opening its files."""

    @property
    def base_offset(self) -> Offset:
        """Where the range of the segment begins."""

    @property
    def size_bytes(self) -> int:
        """How many bytes of batches it holds."""


AnySegment = TypeVar("AnySegment", bound=SegmentFacts)


class Reason(Enum):
    """The rule by which segments go; the value is the name of its setting."""

    LOG_START_OFFSET = "log_start_offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class Breach(NamedTuple):
    """The next `segment_count` segments go, for this reason."""

    reason: Reason
    segment_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Where a log starts and ends, and up to where it is committed."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


def find_breaches(
    segments: Sequence[AnySegment],
    bounds: LogBounds,
    config: LogConfig,
    *,
    now_ms: int,
    newest_ms: Callable[[AnySegment], int],
    max_segments: int,
) -> Iterator[Breach]:
    """Yield what is to go, oldest first: each breach begins where the one before it ended.

    There are at most `max_segments`. `newest_ms` tells the time of a segment's newest record; it
    may have to read files, so it is asked only about segments that go and the first that stays.
    """
    starts_of_next = [segment.base_offset for segment in segments[1:]]
    ends = [*starts_of_next, bounds.log_end_offset] if segments[-1].size_bytes else starts_of_next
    committed = _count_while(end <= bounds.high_watermark for end in ends[:max_segments])
    below = _count_while(end <= bounds.log_start_offset for end in starts_of_next)
    first = min(below, committed)
    yield Breach(Reason.LOG_START_OFFSET, first)
    if DELETE not in config.cleanup_policy:
        return
    count = _count_superfluous([each.size_bytes for each in segments[first:]], config)
    count = min(count, committed - first)
    yield Breach(Reason.SIZE, count)
    first += count
    limit_ms = config.retention_ms
    if limit_ms is not None:
        count = _count_while(
            now_ms - newest_ms(segment) > limit_ms for segment in segments[first:committed]
        )
        yield Breach(Reason.TIME, count)


def _count_superfluous(sizes: Sequence[int], config: LogConfig) -> int:
    """How many segments may go, oldest first, while `retention.bytes` or more remain."""
    if config.retention_bytes is None:
        return 0
    excess = sum(sizes) - config.retention_bytes
    count = 0
    while count < len(sizes) and excess >= sizes[count]:
        excess -= sizes[count]
        count += 1
    return count


def _count_while(answers: Iterator[bool]) -> int:
    """How many of the first answers are yes."""
    count = 0
    for answer in answers:
        if not answer:
            break
        count += 1
    return count
