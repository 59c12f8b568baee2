"""The choice of segments that retention deletes (decision).

Retention deletes the oldest segments first, as long as a rule applies:

- the segment lies entirely below the log start offset;
- `cleanup.policy` has `delete`, and the log has at least `retention.bytes` without the segment;
- `cleanup.policy` has `delete`, and the newest record is older than `retention.ms`.

The first segment that is kept protects all later ones. A segment that ends above the high
watermark is never deleted, and neither is an empty last segment. A last segment with records is
treated like any other. Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from kafkawire.ids import Offset
from storage.config.log_config import DELETE, LogConfig


class SegmentFacts(Protocol):
    """The facts about a segment that are known without opening its files."""

    @property
    def base_offset(self) -> Offset:
        """First offset of the segment's range."""

    @property
    def size_bytes(self) -> int:
        """Size of the segment's batches."""


AnySegment = TypeVar("AnySegment", bound=SegmentFacts)


class Reason(Enum):
    """The rule by which segments are deleted; the value is the name of its setting."""

    LOG_START_OFFSET = "log_start_offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class Breach(NamedTuple):
    """A run of `segment_count` segments to delete, and the reason."""

    reason: Reason
    segment_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Start, end and high watermark of a log."""

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
    """Yield the breaches, oldest segments first; each begins where the previous one ended.

    They cover at most `max_segments`. `newest_ms` returns the time of a segment's newest record. It
    may read files, so it is called only for deleted segments and the first one that is kept.
    """
    starts_of_next = [segment.base_offset for segment in segments[1:]]
    ends = [*starts_of_next, bounds.log_end_offset] if segments[-1].size_bytes else starts_of_next
    committed = _count_while(end <= bounds.high_watermark for end in ends[:max_segments])
    below = _count_while(end <= bounds.log_start_offset for end in starts_of_next[:max_segments])
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
    """Return the number of oldest segments whose deletion leaves `retention.bytes` or more."""
    if config.retention_bytes is None:
        return 0
    excess = sum(sizes) - config.retention_bytes
    count = 0
    while count < len(sizes) and excess >= sizes[count]:
        excess -= sizes[count]
        count += 1
    return count


def _count_while(conditions: Iterator[bool]) -> int:
    """Return the number of leading true `conditions`."""
    count = 0
    for condition in conditions:
        if not condition:
            break
        count += 1
    return count
