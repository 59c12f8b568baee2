"""Computes the delay before a retry. Decision: randomness is a parameter.

Invariant: the n-th delay is `initial_s * 2**(n - 1)`, limited by `max_s`, plus or minus a share of
`JITTER`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 2.0
JITTER: Final = 0.2
MAX_EXPONENT: Final = 40
"""Limit that keeps the growth from overflowing a float; every real `max_s` is far below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with jitter, as in Kafka's clients (KIP-580)."""

    initial_s: float
    max_s: float
    random: Callable[[], float]
    """Uniform within [0, 1)."""

    def delay_s(self, failure_count: int) -> float:
        """Return the delay after the `failure_count`-th failure in a row (from 1)."""
        exponent = min(max(failure_count - 1, 0), MAX_EXPONENT)
        base_s = min(self.initial_s * GROWTH**exponent, self.max_s)
        return base_s * (1 - JITTER + 2 * JITTER * self.random())
