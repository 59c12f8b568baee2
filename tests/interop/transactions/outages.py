"""Schedules of outages of single processes. Pure: a seed in, outages out."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final


class Role(enum.Enum):
    """The process that an outage hits; the state of the cluster determines a broker."""

    LEADER = "leader of a pipeline's partition"
    TRANSACTIONS = "coordinator of transactions"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator of the cluster"
    CLIENT = "member of a pipeline"


class Outage(enum.Enum):
    """The way in which the process stops running for a time."""

    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    STOP = "orderly stop"


MIN_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 10.0
"""Longer than sessions, and than transactions may take."""
MAX_DOWN_S: Final = 1.0
MAX_GAP_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One outage, which may last into later rounds."""

    role: Role
    outage: Outage
    dice: int
    """Selects the target among the candidates."""
    duration_s: float
    gap_s: float
    """Time until the next round."""


def rounds(seed: int, count: int) -> list[Round]:
    """Return the rounds of `seed`; each outage of each role occurs before any of them repeats."""
    random = Random(seed)
    kinds = [(role, outage) for role in Role for outage in Outage]
    order: list[tuple[Role, Outage]] = []
    while len(order) < count:
        order += random.sample(kinds, len(kinds))
    return [_round(random, role, outage) for role, outage in order[:count]]


def _round(random: Random, role: Role, outage: Outage) -> Round:
    # As many pauses below the middle of the range, on a logarithmic scale, as above it.
    pause_s = math.exp(random.uniform(math.log(MIN_PAUSE_S), math.log(MAX_PAUSE_S)))
    down_s = random.uniform(0, MAX_DOWN_S)
    return Round(
        role=role,
        outage=outage,
        dice=random.getrandbits(16),
        duration_s=pause_s if outage is Outage.PAUSE else down_s,
        gap_s=random.uniform(0, MAX_GAP_S),
    )


def chosen(candidates: Sequence[str], dice: int) -> str:
    """Return the candidate that `dice` selects."""
    return candidates[dice % len(candidates)]
