"""Run worlds of fresh seeds, or replay one: `python -m tests.simulation.world [SEED]`."""

import argparse
import logging
import secrets
import sys
import time

from structlog.testing import capture_logs

from tests.simulation.world.world import FAULTS_S, replay, run_world

MINUTE_S = 60.0


def main() -> int:
    """Return the exit code: 1 if a world broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.world", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="replay this world and print its log")
    parser.add_argument("--faults", type=float, default=FAULTS_S, help="virtual seconds of faults")
    parser.add_argument("--for", type=float, default=MINUTE_S, help="seconds of fresh seeds")
    parser.add_argument("--operators", action="store_true", help="change topics meanwhile")
    options = parser.parse_args()
    if options.seed is not None:
        replay(options.seed, options.faults, has_operators=options.operators)
        return 0
    return run_fresh_seeds(vars(options)["for"], options.faults, has_operators=options.operators)


def run_fresh_seeds(duration_s: float, faults_s: float, *, has_operators: bool) -> int:
    """Run one world after the other, and print the outcome of each."""
    end_s = time.monotonic() + duration_s
    failed = count = 0
    logging.disable()
    while time.monotonic() < end_s:
        seed = secrets.randbits(32)
        count += 1
        try:
            with capture_logs():
                outcome = str(run_world(seed, faults_s, has_operators=has_operators))
        except Exception as error:
            failed += 1
            outcome = f"FAILED: {type(error).__name__}: {error}"
        sys.stdout.write(f"seed {seed}: {outcome}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{count} worlds, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
