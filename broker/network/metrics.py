"""Metrics of the network layer (decision).

All are plain counters that only grow, except for the attributes marked as gauges. Counting costs an
addition or two; the reporting side reads the attributes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from broker.network.request_timing import RequestTiming
from monitoring.samples import Samples

MICROSECONDS: Final = 1_000_000
# Bucket n counts durations of 2^(n-1) to 2^n - 1 microseconds, enough for any duration.
DURATION_BUCKETS: Final = 64
# Buckets that are exported: from 64 us, the duration of a produce request, to 67 s.
EXPORTED_BUCKETS: Final = range(6, 27)


@dataclass(slots=True)
class RequestMetrics:
    """Requests of one API, timed from the last byte read to the write of the response."""

    request_count: int = 0
    duration_sum_s: float = 0.0
    duration_buckets: list[int] = field(default_factory=lambda: [0] * DURATION_BUCKETS)
    # In milliseconds, of some of the requests: in all, and by the parts of a request's time.
    total: Samples = field(default_factory=Samples)
    request_queue: Samples = field(default_factory=Samples)
    local: Samples = field(default_factory=Samples)
    remote: Samples = field(default_factory=Samples)
    response_queue: Samples = field(default_factory=Samples)

    def on_answered(self, duration_s: float) -> None:
        """Count a request that took `duration_s`."""
        self.request_count += 1
        self.duration_sum_s += duration_s
        self.duration_buckets[int(duration_s * MICROSECONDS).bit_length()] += 1

    def on_timed(self, timing: RequestTiming, received_at_s: float, sent_at_s: float) -> None:
        """Note the parts of the time of one request."""
        self.total.add((sent_at_s - received_at_s) * 1000)
        self.request_queue.add((timing.handled_at_s - received_at_s) * 1000)
        self.local.add((timing.returned_at_s - timing.handled_at_s) * 1000)
        self.remote.add((timing.completed_at_s - timing.returned_at_s) * 1000)
        self.response_queue.add((sent_at_s - timing.completed_at_s) * 1000)

    def durations(self) -> list[tuple[float, int]]:
        """Return increasing bounds in seconds, each with the number of requests below it."""
        below = list(accumulate(self.duration_buckets))
        return [((1 << bucket) / MICROSECONDS, below[bucket]) for bucket in EXPORTED_BUCKETS]


class NetworkMetrics:
    """Counters of all listeners and connections of one broker."""

    __slots__ = (
        "authentications",
        "authentications_failed",
        "bytes_in",
        "bytes_out",
        "cold_reads",
        "connections_accepted",
        "connections_dropped",
        "connections_open",
        "connections_refused",
        "handler_failures",
        "queue_length",
        "read_pauses",
        "requests",
        "sendfile_bytes",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.sendfile_bytes = 0
        # File windows that a thread read from the disk before they were sent.
        self.cold_reads = 0
        # Only on listeners with SASL.
        self.authentications = 0
        self.authentications_failed = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        # Connections closed by the broker: bad input, idleness, failure of a handler.
        self.connections_dropped = 0
        self.handler_failures = 0
        self.read_pauses = 0
        # Gauges.
        self.connections_open = 0
        self.queue_length = 0
        # By API key.
        self.requests: defaultdict[int, RequestMetrics] = defaultdict(RequestMetrics)
