"""Schedules of faults. Pure: a seed in, rounds out."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final


class Fault(enum.Enum):
    """Kinds of faults; the second word of a name is the target."""

    KILL_BROKER = "kill -9 of a broker"
    KILL_CONTROLLER = "kill -9 of the controller"
    KILL_TWO = "kill -9 of two brokers at once"
    PAUSE_BROKER = "SIGSTOP, SIGCONT of a broker"
    PAUSE_CONTROLLER = "SIGSTOP, SIGCONT of the controller"
    STOP_BROKER = "a broker stops in order"
    STOP_CONTROLLER = "the controller stops in order"
    KILL_COORDINATOR = "kill -9 of the coordinator"


QUICK: Final = (
    Fault.KILL_CONTROLLER,
    Fault.PAUSE_BROKER,
    Fault.KILL_COORDINATOR,
    Fault.STOP_BROKER,
)
MIN_PAUSE_MS: Final = 100
MAX_PAUSE_MS: Final = 3_000
"""Longer than a session timeout: some paused brokers are declared dead, some are not."""

HEALED_PART: Final = 0.5


@dataclass(frozen=True, slots=True)
class Round:
    """One fault: it begins, lasts, and is repaired."""

    fault: Fault
    dice: int
    """Selects the target among the candidates."""
    duration_ms: int
    heals: bool
    """Whether the cluster recovers before the next round begins."""


def rounds(seed: int, count: int, faults: Sequence[Fault] = tuple(Fault)) -> list[Round]:
    """Return the rounds of `seed`; each kind of fault occurs before any of them repeats."""
    random = Random(seed)
    order: list[Fault] = []
    while len(order) < count:
        order += random.sample(faults, len(faults))
    return [
        Round(
            fault,
            random.getrandbits(16),
            random.randint(MIN_PAUSE_MS, MAX_PAUSE_MS),
            random.random() < HEALED_PART,
        )
        for fault in order[:count]
    ]
