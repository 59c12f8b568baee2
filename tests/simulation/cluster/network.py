"""Virtual time, and a network that delays, loses and repeats messages."""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

MAX_DELAY_MS = 25


@dataclass(slots=True)
class Faults:
    """Probabilities of faults of the network."""

    lose: float = 0.02
    repeat: float = 0.02
    slow: float = 0.02
    """Probability of a delay up to ten times as long, so that later messages overtake."""


class Clock:
    """Virtual clock with scheduled actions; ties run in the order of scheduling."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedule `action` in `delay_ms`."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._order), action))

    def step(self) -> None:
        """Advance to the next action and run it."""
        self.now_ms, _, action = heapq.heappop(self._due)
        action()


class Network:
    """Delivers messages between processes; a partitioned pair loses all of them."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self.faults = Faults()
        self.cut: set[frozenset[int]] = set()

    def delay_ms(self) -> int:
        """Return the delay of one message."""
        slow = 10 if self._rng.random() < self.faults.slow else 1
        return self._rng.randint(1, MAX_DELAY_MS) * slow

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Run `deliver` at the target: after a delay, twice, or never."""
        if frozenset((source, target)) in self.cut or self._rng.random() < self.faults.lose:
            return
        self._clock.after(self.delay_ms(), deliver)
        if self._rng.random() < self.faults.repeat:
            self._clock.after(self.delay_ms(), deliver)
