"""Runs worlds of fresh seeds, sums up their outcomes, and shrinks the scripts that fail."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import structlog
from structlog.testing import capture_logs

from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import current_host
from tests.simulation.world.script import Script, Shrinking, draw_script
from tests.simulation.world.transactional_world import run_transactional_script
from tests.simulation.world.world import Outcome, quiet_collection, run_script

HERE: Final = str(Path(__file__).parent)
HOUR_S: Final = 3600.0
MESSAGE_CHARACTERS: Final = 1000
SEED_BITS: Final = 32
TRANSACTIONAL_PART: Final = 4
"""Number of fresh worlds of which the last one has transactions."""


class Totals:
    """The sums of many outcomes; `str` is a report."""

    def __init__(self) -> None:
        self.world_count = 0
        self.failed: list[Script] = []
        self.step_count = 0
        self.virtual_s = 0.0
        self.faults: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.overlaps: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a world that kept its promises."""
        self.step_count += outcome.step_count
        self.virtual_s += outcome.virtual_s
        self.faults += outcome.fault_counts
        self.operations += outcome.operation_counts
        self.overlaps += outcome.overlaps

    def __str__(self) -> str:
        lines = [
            f"{self.world_count} worlds, {len(self.failed)} failed; "
            f"{self.virtual_s / HOUR_S:.2f} virtual hours in {self.step_count} steps; "
            f"{self.faults.total()} faults, {self.operations.total()} operations",
            *_columns("faults", self.faults),
            *_columns("operations", self.operations),
            "operations during each kind of fault:",
            *_table(self.overlaps),
        ]
        return "\n".join(lines)


def _columns(title: str, counts: Counter[str]) -> Iterator[str]:
    yield f"{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _table(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Return the lines of a table: a line per operation, a column per fault."""
    faults = sorted({fault for fault, _ in counts})
    operations = sorted({operation for _, operation in counts})
    first = max(map(len, operations), default=0)
    for number, fault in enumerate(faults):
        yield f"{'':{first}}" + "       |" * number + f" {fault}"
    for operation in operations:
        row = "".join(f"{counts[fault, operation] or '-':>8}" for fault in faults)
        yield f"{operation:{first}}{row}"


def run_fresh_seeds(duration_s: float, faults_s: float, *, has_operators: bool) -> Totals:
    """Run one world after the other for `duration_s` of real time, and print each outcome."""
    end_s, totals = time.monotonic() + duration_s, Totals()
    logging.disable()
    # The modules are never garbage, and collections would visit them several times per world.
    gc.freeze()
    while time.monotonic() < end_s:
        seed = secrets.randbits(SEED_BITS)
        is_transactional = totals.world_count % TRANSACTIONAL_PART == TRANSACTIONAL_PART - 1
        script = draw_script(
            seed,
            faults_s,
            has_operators=has_operators,
            has_transactions=is_transactional,
            has_any_size=True,
        )
        totals.world_count += 1
        result = attempt(script)
        if isinstance(result, Outcome):
            totals.add(result)
        else:
            totals.failed.append(script)
        _say(f"seed {seed}{' --transactions' * is_transactional}: {result}")
    _say(totals)
    for script in totals.failed:
        _say(f"seed {script.seed} fails with this script, too:\n{shrunk(script)}")
    return totals


def attempt(script: Script) -> Outcome | str:
    """Return the outcome of a script, or the judge that failed and its message."""
    with quiet_collection(), capture_logs():
        try:
            return run(script)
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", ()))
            message = f"{error}"[:MESSAGE_CHARACTERS]
            return f"FAILED {_judge_of(error)}: {message} ({notes})"


def run(script: Script) -> Outcome:
    """Run the world of a script, and judge it.

    Raises:
        AssertionError: the cluster broke a promise.
    """
    return run_transactional_script(script) if script.has_transactions else run_script(script)


def shrunk(script: Script) -> Script:
    """Return a smaller script of a failing one, for which the same judge fails."""
    judge = _judge_in(attempt(script))
    assert judge is not None, "the script does not fail"
    return Shrinking(lambda each: _judge_in(attempt(each)) == judge).shrink(script)


def _judge_of(error: Exception) -> str:
    """Return the type of an error, and the function of the simulation that it has ended."""
    frames: Iterable[Any] = traceback.extract_tb(error.__traceback__)
    functions = [frame.name for frame in frames if frame.filename.startswith(HERE)]
    return f"{type(error).__name__} in {functions[-1]}"


def _judge_in(result: Outcome | str) -> str | None:
    return result.partition(":")[0] if isinstance(result, str) else None


def replay(script: Script) -> None:
    """Run a world and print its log, with the virtual time and the host of each event.

    Raises:
        Exception: as the world.
    """
    logging.basicConfig(stream=sys.stdout, level=logging.INFO)

    def locate(_logger: object, _method: str, event: Any) -> Any:
        event["at"] = f"{asyncio.get_running_loop().time() - WorldLoop.FIRST_S:.4f}"
        event["host"] = current_host()
        return event

    structlog.configure(
        processors=[
            locate,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["at", "host", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )
    _say(run(script))


def _say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
