"""The cost of `ottla.testing`: times until servers are ready, and the overhead of a test's topic.

`python -m benchmarks.testing_cost` prints medians, each with the least of its runs, and processor
time beside the overheads: on a busy machine, only that is a property of the program. It runs from
bytecode on disk, as installed packages do.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ottla.testing import Broker, Cluster
from ottla.testing.launching import close_launcher

RUNS: Final = 7
SESSIONS: Final = 5
TESTS: Final = 100
WARM_UP: Final = 20
MS_PER_S: Final = 1000
NS_PER_S: Final = 1_000_000_000
NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"
TEST_FILE: Final = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_with_what_it_uses(number{fixture}):
    pass
"""


class Cost(NamedTuple):
    """Seconds of a piece of work: by the clock, and of processors."""

    time_s: float
    processor_s: float


def main() -> None:
    """Measure and print."""
    os.environ.pop(NO_BYTECODE, None)
    sys.dont_write_bytecode = False
    kinds: dict[str, Callable[[], Broker | Cluster]] = {
        "broker": Broker,
        "broker with a network": partial(Broker, network=True),
        "cluster of three": Cluster,
        "cluster of three with a network": partial(Cluster, network=True),
    }
    with Broker():
        # The first start of a new checkout writes the bytecode.
        pass
    for name, make in kinds.items():
        _print(f"first {name}, ready", [_ready_s(make, is_first=True) for _ in range(RUNS)])
    for name, make in kinds.items():
        _print(f"further {name}, ready", [_ready_s(make, is_first=False) for _ in range(RUNS)])
    _print_overhead("topic of a test, created and given up", _topic_costs())
    _print_overhead(f"pytest, {TESTS} tests", [_overhead_in_pytest() for _ in range(SESSIONS)])


def _ready_s(make: Callable[[], Broker | Cluster], *, is_first: bool) -> float:
    """Return the seconds until a server is ready; the first one waits for the launcher."""
    if is_first:
        close_launcher()
    began_s = time.perf_counter()
    with make():
        return time.perf_counter() - began_s


def _topic_costs() -> list[Cost]:
    with Broker() as broker:
        costs = []
        for _ in range(WARM_UP + TESTS):
            used_s, began_s = _processor_s(broker.pid), time.perf_counter()
            with broker.topics("test_of_the_overhead") as topics:
                topics.create()
            time_s = time.perf_counter() - began_s
            costs.append(Cost(time_s, _processor_s(broker.pid) - used_s))
        return costs[WARM_UP:]


def _processor_s(pid: int) -> float:
    """Return the processor time of this process and of all threads of another one."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return time.process_time() + sum(int(one.read_text().split()[0]) for one in threads) / NS_PER_S


def _overhead_in_pytest() -> Cost:
    """Return the cost that a topic adds to a test; the start of the broker is no part of it."""
    many, one = _session(TESTS, ", ottla_topic"), _session(1, ", ottla_topic")
    bare_many, bare_one = _session(TESTS, ""), _session(1, "")
    time_s, processor_s = (
        (many[place] - one[place] - (bare_many[place] - bare_one[place])) / (TESTS - 1)
        for place in range(2)
    )
    return Cost(time_s, processor_s)


def _session(count: int, fixture: str) -> Cost:
    """Run a session of pytest, with the servers that it starts."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "test_cost.py").write_text(TEST_FILE.format(count=count, fixture=fixture))
        used_s, began_s = _children_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", directory],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=directory,
        )
        return Cost(time.perf_counter() - began_s, _children_s() - used_s)


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _print(name: str, times_s: list[float]) -> None:
    median_ms, least_ms = (value * MS_PER_S for value in (statistics.median(times_s), min(times_s)))
    sys.stdout.write(f"{name}: {median_ms:.0f} ms (least {least_ms:.0f} ms)\n")
    sys.stdout.flush()


def _print_overhead(name: str, costs: list[Cost]) -> None:
    """Print the median by the clock, and the mean of processor time, which includes deletions."""
    times_ms = [cost.time_s * MS_PER_S for cost in costs]
    processor_ms = statistics.mean(cost.processor_s for cost in costs) * MS_PER_S
    sys.stdout.write(
        f"{name}: {statistics.mean(times_ms):.1f} ms of overhead a test (median "
        f"{statistics.median(times_ms):.1f}, least {min(times_ms):.1f}), "
        f"{processor_ms:.1f} ms of processor time\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
