"""The moments in the time of a request that is timed in its parts (decision).

One of `UNTIMED_COUNT` + 1 requests of each frequent API is timed, and every request of another API,
so that the measurement costs the frequent requests next to nothing.
"""

from __future__ import annotations

from typing import Final

from kafkawire.apis import ApiKey

FREQUENT_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.HEARTBEAT,
)
UNTIMED_COUNT: Final = 15
"""Number of requests of a frequent API between two that are timed."""


class RequestTiming:
    """Moments in the loop's time, in seconds."""

    __slots__ = ("completed_at_s", "handled_at_s", "returned_at_s")

    def __init__(self, handled_at_s: float) -> None:
        """Note that the handler is about to be called."""
        self.handled_at_s = handled_at_s
        # When the handler has returned, and when the reply was complete; later, if it waits.
        self.returned_at_s = handled_at_s
        self.completed_at_s = handled_at_s
