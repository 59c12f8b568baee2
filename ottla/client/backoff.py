"""How long to wait before the next try. Decision: the dice are a parameter.

Invariant: the n-th wait lies within a share of `JITTER` around `initial_s * 2**(n - 1)`, which
`max_s` limits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 2.0
JITTER: Final = 0.2
MAX_EXPONENT: Final = 40
"""Beyond it the growth would only overflow a float; every real limit is far below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential waits with jitter, as Kafka's clients have them (KIP-580)."""

    initial_s: float
    max_s: float
    random: Callable[[], float]
    """Uniform within [0, 1)."""

    def delay_s(self, failure_count: int) -> float:
        """Return the wait after the `failure_count`-th failure in a row (from 1)."""
        exponent = min(max(failure_count - 1, 0), MAX_EXPONENT)
        base_s = min(self.initial_s * GROWTH**exponent, self.max_s)
        return base_s * (1 - JITTER + 2 * JITTER * self.random())
