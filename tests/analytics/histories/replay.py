"""Print the steps and alarms of the history from a seed, and keep its files.

`python -m tests.analytics.histories.replay SEED [STEPS] [DIRECTORY]`: the first STEPS steps (40),
with the log dirs below DIRECTORY (replayed-SEED), which is replaced.
"""

import shutil
import sys
from pathlib import Path

import structlog

from tests.analytics.histories.cluster import Cluster
from tests.analytics.histories.verdicts import Judge
from tests.unit.storage.faults import faulty


def main(arguments: list[str]) -> None:
    """Replay one history."""
    defaults = ["", "40", f"replayed-{arguments[0]}"]
    seed, step_count, root = [*arguments, *defaults[len(arguments) :]]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    shutil.rmtree(root, ignore_errors=True)
    with faulty() as faults:
        cluster, judge = Cluster(Path(root), int(seed), faults), Judge()
        for number in range(int(step_count)):
            cluster.step()
            sys.stdout.write(f"{number} {cluster.deeds[-1]}\n")
            expired = cluster.expired.root if cluster.expired else None
            for each in judge.alarms(cluster.roots, cluster.rules, cluster.archive.root, expired):
                sys.stdout.write(f"    {each}\n")
        cluster.close()


if __name__ == "__main__":
    main(sys.argv[1:])
