"""Virtual time and a network that delays, loses and repeats."""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

MAX_DELAY_MS = 25


@dataclass(slots=True)
class Faults:
    """How bad the network is, as probabilities."""

    lose: float = 0.02
    repeat: float = 0.02
    slow: float = 0.02
    """Takes up to ten times as long, and is overtaken."""


class Clock:
    """What happens when; ties in the order in which they were planned."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._order = itertools.count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let `action` happen `delay_ms` from now."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._order), action))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now_ms, _, action = heapq.heappop(self._due)
        action()


class Network:
    """Delivers between processes; a pair that is cut loses everything."""

    def __init__(self, clock: Clock, dice: random.Random) -> None:
        self._clock = clock
        self._dice = dice
        self.faults = Faults()
        self.cut: set[frozenset[int]] = set()

    def delay_ms(self) -> int:
        """Return how long one message takes."""
        slow = 10 if self._dice.random() < self.faults.slow else 1
        return self._dice.randint(1, MAX_DELAY_MS) * slow

    def send(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Let `deliver` happen at the target: late, twice, or never."""
        if frozenset((source, target)) in self.cut or self._dice.random() < self.faults.lose:
            return
        self._clock.after(self.delay_ms(), deliver)
        if self._dice.random() < self.faults.repeat:
            self._clock.after(self.delay_ms(), deliver)
