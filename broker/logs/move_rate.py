"""How fast logs may move between log dirs, all of them together (decision).

Kafka's rule: whoever has copied more than the rate allows copies nothing until it is paid for.
Unlike Kafka's, time in which nothing was copied does not count: a pause is not followed by a burst.
Source: `replica.alter.log.dirs.io.max.bytes.per.second`, ReplicaAlterLogDirsThread.
"""


class MoveRate:
    """The limit, and until when what was copied uses it up; without a limit at first."""

    def __init__(self) -> None:
        self._max_bytes_per_second = float("inf")
        self._paid_s = 0.0

    def limit(self, max_bytes_per_second: float, now_s: float) -> None:
        """Allow so many bytes per second from now on, whatever was copied before; 0: none."""
        self._max_bytes_per_second = max_bytes_per_second
        self._paid_s = now_s

    def on_bytes(self, size_bytes: int, now_s: float) -> None:
        """Note that so much is copied now."""
        if self._max_bytes_per_second > 0:
            begin_s = max(self._paid_s, now_s)
            self._paid_s = begin_s + size_bytes / self._max_bytes_per_second

    def wait_s(self, now_s: float) -> float:
        """Return for how long nothing may be copied."""
        if self._max_bytes_per_second <= 0:
            return float("inf")
        return max(0.0, self._paid_s - now_s)
