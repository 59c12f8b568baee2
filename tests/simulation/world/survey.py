"""Plants each bug and prints the table of `docs/planted-bugs.md`.

`python -m tests.simulation.world.survey [--seeds N] [--processes N] [NAME ...]`
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.mutants import MUTANTS, TRANSACTION_MUTANTS
from tests.simulation.world.scenarios import SCENARIOS
from tests.simulation.world.stage import play
from tests.simulation.world.stories import STORIES
from tests.simulation.world.transactional_world import run_transactions
from tests.simulation.world.world import FAULTS_S, quiet_collection, run_world

SEEDS: Final = 200
"""Worlds in which a planted bug must be found, unless something else finds it at once."""
HEADING: Final = (
    "| Planted bug | Broken rule | Worlds until found | Found at once by |\n"
    "| --- | --- | --- | --- |\n"
)
BY_TEST: Final[Mapping[str, str]] = {
    "any_leader_epoch": "broker/cluster/test_control_fence.py",
    "any_stop": "broker/cluster/test_control_fence.py",
    "any_controller": "broker/cluster/test_control_fence.py",
    "blind_memory": "controller/test_plans.py",
    "decisions_count_at_once": "broker/transactions/test_transaction_coordinator.py",
    "fenced_producers_continue": "broker/transactions/test_transaction.py",
    "forgotten_decisions": "broker/transactions/test_transaction.py",
    "lost_markers": "broker/transactions/test_marker_sender.py",
    "lost_undecided_offsets": "broker/groups/test_undecided.py",
    "no_fence": "controller/test_zombie.py",
    "poisoned_group_log": "broker/groups/test_replay.py",
    "stale_recovery_points": "storage/directory/test_directory_faults.py",
    "undecided_records_are_read": "broker/replication/test_isolation.py",
    "unreplicated_decisions": "broker/transactions/test_transaction_coordinator.py",
    "unseen_bounces": "controller/test_plans.py",
    "unverified_transactions": "broker/replication/test_transaction_guards.py",
}
"""Unit tests that find bugs which need a rare coincidence in a world."""


def is_found_by(seed: int, name: str = "") -> bool:
    """Whether the world of a seed shows the planted bug, by an error of any kind.

    A bug of transactions is looked for in a world with transactions.
    """
    if name in TRANSACTION_MUTANTS:
        return _fails(partial(run_transactions, seed, FAULTS_S, has_operators=True))
    return _fails(partial(run_world, seed, FAULTS_S, has_operators=True))


def is_found_at_once(name: str) -> bool:
    """Whether the story or the scenario of a planted bug shows it."""
    if name in STORIES:
        return _fails(lambda: play(0, STORIES[name]))
    return name in SCENARIOS and _fails(SCENARIOS[name])


def _fails(work: Callable[[], object]) -> bool:
    with quiet_collection(), capture_logs():
        try:
            work()
        except Exception:
            # A planted bug may show as an error of any client.
            return True
    return False


def first_seed(name: str, seeds: int) -> int | None:
    """Return the number of worlds after which a planted bug is found; None if it is not."""
    logging.disable()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name].plant(patch)
        return next((seed + 1 for seed in range(seeds) if is_found_by(seed, name)), None)


def row(name: str, seeds: int) -> str:
    """Return the row of a planted bug; the number of worlds is the one it took."""
    count = first_seed(name, seeds)
    rule = (MUTANTS[name].bug.__doc__ or "").strip().split("\n", maxsplit=1)[0]
    found = "-" if count is None else str(count)
    return f"| `{name}` | {rule} | {found} | {_other(name)} |"


def _other(name: str) -> str:
    if name in STORIES:
        return f"story `{STORIES[name].__name__}`"
    if name in SCENARIOS:
        return f"scenario `{SCENARIOS[name].__name__}`"
    return f"`tests/unit/{BY_TEST[name]}`" if name in BY_TEST else "-"


def main() -> None:
    """Print the table, one row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=sorted(MUTANTS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    sys.stdout.write(HEADING)
    context = multiprocessing.get_context("spawn")
    # A new process for each bug: a bug may leave its traces in the modules.
    with ProcessPoolExecutor(options.processes, context, max_tasks_per_child=1) as pool:
        for text in pool.map(row, options.names, [options.seeds] * len(options.names)):
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
