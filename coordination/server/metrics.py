"""Counters of one coordinator (decision); `four_letter` prints them."""


class Metrics:
    """Counters since the start, or since the last `srst`."""

    def __init__(self) -> None:
        self.stall_count = 0
        self.reset()

    def reset(self) -> None:
        """Reset the counters, for `srst`."""
        self.received_count = 0
        self.sent_count = 0
        self.expired_count = 0
        self.rejected_count = 0
        self.latency_count = 0
        self.latency_sum_ms = 0.0
        self.latency_min_ms = 0.0
        self.latency_max_ms = 0.0

    @property
    def latency_avg_ms(self) -> float:
        """Mean time from a packet to its reply."""
        return self.latency_sum_ms / self.latency_count if self.latency_count else 0.0

    def on_latency(self, elapsed_ms: float) -> None:
        """Record the latency of a batch of replies."""
        if not self.latency_count or elapsed_ms < self.latency_min_ms:
            self.latency_min_ms = elapsed_ms
        if elapsed_ms > self.latency_max_ms:
            self.latency_max_ms = elapsed_ms
        self.latency_count += 1
        self.latency_sum_ms += elapsed_ms
