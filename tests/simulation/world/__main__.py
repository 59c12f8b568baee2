"""Run worlds of fresh seeds, or replay one: `python -m tests.simulation.world [SEED]`.

A replay prints its log, and at the end the same trace as the run with fresh seeds.
"""

import argparse
import sys
from typing import Final

from tests.simulation.world.runner import replay, run_fresh_seeds
from tests.simulation.world.script import draw_script

MINUTE_S: Final = 60.0


def main() -> int:
    """Return the exit code: 1 if a world broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.world", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="replay this world and print its log")
    parser.add_argument("--faults", type=float, default=MINUTE_S, help="virtual seconds of faults")
    parser.add_argument("--for", type=float, default=MINUTE_S, help="seconds of fresh seeds")
    parser.add_argument(
        "--operators", action=argparse.BooleanOptionalAction, default=True, help="change topics too"
    )
    parser.add_argument("--transactions", action="store_true", help="replay one with transactions")
    options = parser.parse_args()
    if options.seed is not None:
        script = draw_script(
            options.seed,
            options.faults,
            has_operators=options.operators,
            has_transactions=options.transactions,
            has_any_size=True,
        )
        replay(script)
        return 0
    seconds: float = vars(options)["for"]
    totals = run_fresh_seeds(seconds, options.faults, has_operators=options.operators)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
