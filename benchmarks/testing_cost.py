"""The cost of `ottla.testing`: times until servers are ready, and the overhead of a test's topic.

`python -m benchmarks.testing_cost` prints medians, each with the least of its runs. Nothing else
should run meanwhile.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.testing import Broker, Cluster
from ottla.testing.launching import close_launcher

RUNS: Final = 7
TESTS: Final = 100
WARM_UP: Final = 10
MS_PER_S: Final = 1000


def main() -> None:
    """Measure and print."""
    kinds: dict[str, Callable[[], Broker | Cluster]] = {
        "broker": Broker,
        "broker with a network": partial(Broker, network=True),
        "cluster of three": Cluster,
        "cluster of three with a network": partial(Cluster, network=True),
    }
    for name, make in kinds.items():
        _print(f"first {name}, ready", [_ready_s(make, is_first=True) for _ in range(RUNS)])
    for name, make in kinds.items():
        _print(f"further {name}, ready", [_ready_s(make, is_first=False) for _ in range(RUNS)])
    with Broker() as broker:
        times_s = [_topic_s(broker) for _ in range(WARM_UP + TESTS)][WARM_UP:]
    _print("topic of a test, created and given up", times_s)
    total_s = sum(times_s)
    sys.stdout.write(f"{TESTS} tests: {total_s / TESTS * MS_PER_S:.1f} ms of overhead a test\n")


def _ready_s(make: Callable[[], Broker | Cluster], *, is_first: bool) -> float:
    """Return the seconds until a server is ready; the first one waits for the launcher."""
    if is_first:
        close_launcher()
    began_s = time.perf_counter()
    with make():
        return time.perf_counter() - began_s


def _topic_s(broker: Broker) -> float:
    began_s = time.perf_counter()
    with broker.topics("test_of_the_overhead") as topics:
        topics.create()
    return time.perf_counter() - began_s


def _print(name: str, times_s: list[float]) -> None:
    median_ms, least_ms = (value * MS_PER_S for value in (statistics.median(times_s), min(times_s)))
    sys.stdout.write(f"{name}: {median_ms:.0f} ms (least {least_ms:.0f} ms)\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
