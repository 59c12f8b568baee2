"""ListOffsets in version 0: base offsets of segments before a time (decision).

Old consumers and tools ask for the start or the end of a log only.

Source: kafka.log.UnifiedLog.legacyFetchOffsetsBefore of Kafka 3.9, with the largest timestamps of
segments in place of the times at which their files changed.
"""

from collections.abc import Sequence

from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP


def old_offsets(
    segments: Sequence[tuple[int, int]],
    timestamp: int,
    max_count: int,
    *,
    now_ms: int,
    start_offset: int,
    end_offset: int,
) -> list[int]:
    """Return up to `max_count` offsets, the largest first, and none beyond `end_offset`.

    `segments` holds base offset and largest timestamp in ms of each segment, oldest first; the
    timestamp is -1 if its records have none, or there are none. The result begins with the start,
    or the newest segment that ended by `timestamp`; from `now_ms` on, with the end.
    """
    starts = [max(base, start_offset) for base, _ in segments]
    offsets = [*starts, end_offset] if not starts or starts[-1] < end_offset else starts
    if timestamp == LATEST_TIMESTAMP or timestamp >= now_ms:
        last = len(offsets) - 1
    elif timestamp == EARLIEST_TIMESTAMP:
        last = 0
    else:
        last = max(
            (index for index, (_, time_ms) in enumerate(segments) if 0 <= time_ms <= timestamp),
            default=-1,
        )
    found = offsets[: last + 1][::-1][: max(max_count, 0)]
    return [min(offset, end_offset) for offset in found]
