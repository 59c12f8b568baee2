"""Scripts of simulated worlds: a seed, and the faults that happen in its world.

A failing script can be shrunk: fewer faults, for which the same judge still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

KINDS: Final = (
    *("kill_broker", "kill_broker", "stop_broker", "pause_broker", "isolate"),
    *("pause_controller", "bounce_behind_the_controller", "pause_client", "kill_client"),
    *("kill_coordinator", "pause_coordinator", "let_coordinator_stutter"),
    *("part", "part_one_way", "reset", "reset", "step_clock"),
    *("lose_power", "lose_power", "lose_disk", "lose_coordinator_power", "black_out"),
    *("fill_disk", "slow_disk", "lack_descriptors", "break_log_dir", "fill_log_dir"),
)
"""Methods of `Trouble`, without their underscores; the seed draws one of these places."""
BROKERS: Final = 3
"""Brokers of a world, unless its seed may draw another number, and replicas of most topics."""
BROKER_COUNTS: Final = (1, 2, BROKERS, BROKERS, 4, 5)
RATES: Final = (0.3, 0.5, 1.0)
"""Faults per second of virtual time; the seed draws one."""
SWARM_SHARE: Final = 0.7
"""Share of the worlds with a few kinds of faults only."""
SWARM_SIZES: Final = range(2, 7)
REST_S: Final = 1.0
"""Virtual time after the last fault of a small script."""
MAX_RUNS: Final = 300
"""Worlds that are run to shrink one script."""
SEEDS_PER_STEP: Final = 3
"""Seeds of the rest of the world that are tried with fewer faults."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. It is left out if a promise would not hold at that time."""

    at_s: float
    """Virtual time since the clients began."""
    kind: str
    dice: int
    """Seed of the choices of the fault, such as its host and its duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A world with faults; `repr` is Python code, for a test of its own."""

    seed: int
    faults_s: float
    """Virtual time before the cluster must come to rest."""
    has_operators: bool
    faults: tuple[Fault, ...]
    has_transactions: bool = False
    """Whether the clients write in transactions."""
    broker_count: int = BROKERS

    def __str__(self) -> str:
        faults = "".join(f"        {fault!r},\n" for fault in self.faults)
        return (
            f"Script(\n    seed={self.seed},\n    faults_s={self.faults_s!r},\n"
            f"    has_operators={self.has_operators},\n"
            f"    has_transactions={self.has_transactions},\n"
            f"    broker_count={self.broker_count},\n    faults=(\n{faults}    ),\n)"
        )


def draw_script(
    seed: int,
    faults_s: float,
    *,
    has_operators: bool,
    has_transactions: bool = False,
    has_any_size: bool = False,
) -> Script:
    """Return the script of a seed; if it `has_any_size`, the seed draws the number of brokers."""
    return Script(
        seed=seed,
        faults_s=faults_s,
        has_operators=has_operators,
        faults=tuple(_draw_faults(Random(f"faults {seed}"), faults_s)),
        has_transactions=has_transactions,
        broker_count=Random(f"brokers {seed}").choice(BROKER_COUNTS) if has_any_size else BROKERS,
    )


def _draw_faults(chance: Random, faults_s: float) -> Iterator[Fault]:
    kinds: Sequence[str] = KINDS
    if chance.random() < SWARM_SHARE:
        # Few kinds, so that some of them meet each other often.
        kinds = chance.sample(KINDS, chance.choice(SWARM_SIZES))
    rate = chance.choice(RATES)
    at_s = chance.expovariate(rate)
    while at_s < faults_s:
        # Rounded, so that a printed script is the same script.
        yield Fault(round(at_s, 3), chance.choice(kinds), chance.getrandbits(32))
        at_s += chance.expovariate(rate)


class Shrinking:
    """Looks for smaller scripts that `fails`, until `MAX_RUNS` worlds have run."""

    def __init__(self, fails: Callable[[Script], bool]) -> None:
        self._fails = fails
        self._runs_left = MAX_RUNS

    def shrink(self, script: Script) -> Script:
        """Return the smallest failing script that was found."""
        script = self._without_faults(script)
        script = self._try(replace(script, has_operators=False)) or script
        if script.broker_count != BROKERS:
            script = self._try(replace(script, broker_count=BROKERS)) or script
        last_s = script.faults[-1].at_s if script.faults else 0.0
        script = self._try(replace(script, faults_s=last_s + REST_S)) or script
        return self._without_faults(script)

    def _without_faults(self, script: Script) -> Script:
        """Leave out faults, by halves, by quarters, and so on to single ones."""
        size = len(script.faults)
        while size > 0:
            end = len(script.faults)
            while end > 0:
                # From the end: the last faults may have come after the failure.
                begin = max(0, end - size)
                faults = (*script.faults[:begin], *script.faults[end:])
                script = self._try(replace(script, faults=faults)) or script
                end = begin
            size //= 2
        return script

    def _try(self, script: Script) -> Script | None:
        """Return the script, maybe with another seed, if it fails."""
        for number in range(SEEDS_PER_STEP):
            if self._runs_left == 0:
                return None
            self._runs_left -= 1
            candidate = replace(script, seed=script.seed + number)
            if self._fails(candidate):
                return candidate
        return None
