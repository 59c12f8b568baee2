"""Rate limit for moves between log dirs, for all moves together (decision).

As in Kafka, a move that has exceeded the rate pauses until the average is back at the limit. Unlike
in Kafka, idle time does not count: a pause is not followed by a burst. Source:
`replica.alter.log.dirs.io.max.bytes.per.second`, ReplicaAlterLogDirsThread.
"""


class MoveRate:
    """The limit, and the time until which copied bytes use it up; unlimited at first."""

    def __init__(self) -> None:
        self._max_bytes_per_second = float("inf")
        self._used_until_s = 0.0

    def limit(self, max_bytes_per_second: float, now_s: float) -> None:
        """Set the limit, and forget earlier copies; 0 pauses all moves."""
        self._max_bytes_per_second = max_bytes_per_second
        self._used_until_s = now_s

    def on_bytes(self, size_bytes: int, now_s: float) -> None:
        """Count bytes that are being copied."""
        if self._max_bytes_per_second > 0:
            begin_s = max(self._used_until_s, now_s)
            self._used_until_s = begin_s + size_bytes / self._max_bytes_per_second

    def wait_s(self, now_s: float) -> float:
        """Return the time before more may be copied."""
        if self._max_bytes_per_second <= 0:
            return float("inf")
        return max(0.0, self._used_until_s - now_s)
