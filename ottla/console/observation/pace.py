"""The pause between two samples of the cluster (decision).

A sample of a large cluster costs the brokers and the console more, so it is taken less often. While
no browser is open, samples are rare; they only continue the history.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

SAMPLE_SHARE: Final = 10
"""A sample takes at most one part of this number of all time."""
IDLE_PAUSE_S: Final = 30.0
MAX_PAUSE_S: Final = 120.0
RECENT_SAMPLES: Final = 3
INTEREST_S: Final = 60.0
"""Time after the last request of a browser in which it counts as open."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of one kind of sample."""

    min_pause_s: float

    def pause_s(self, duration_s: float, quiet_s: float) -> float:
        """Return the pause after a sample of a kind that takes `duration_s`.

        `duration_s` is the usual duration, see `Durations`. `quiet_s` is the time since a browser
        last showed the samples.
        """
        wanted = self.min_pause_s if quiet_s < INTEREST_S else max(self.min_pause_s, IDLE_PAUSE_S)
        return min(MAX_PAUSE_S, max(wanted, duration_s * (SAMPLE_SHARE - 1)))


class Durations:
    """The last durations of one kind of sample."""

    def __init__(self) -> None:
        self._last = deque([0.0] * RECENT_SAMPLES, maxlen=RECENT_SAMPLES)

    def add(self, duration_s: float) -> float:
        """Note a duration; return the usual one, which is the shortest of the last ones.

        A single sample that met a broker without a response, or a failover, was not costly.
        """
        self._last.append(duration_s)
        return min(self._last)
