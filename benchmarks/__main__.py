"""`python -m benchmarks [NAME ...]`: run the whole-process loads and write their results.

Composition: picks the loads, gives each an empty folder, prints the table, writes
`benchmarks/results/latest.json` and `docs/benchmarks.md` (only after a complete run).
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.loads.process import GENERATOR_CORE, pin
from benchmarks.loads.result import Figure, row, to_json, to_markdown

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results" / "latest.json"
PAGE: Final = ROOT / "docs" / "benchmarks.md"
LOADS: Final = {
    "startup": "benchmarks.loads.startup_load",
    "produce": "benchmarks.loads.produce_load",
    "fetch": "benchmarks.loads.fetch_load",
    "librdkafka": "benchmarks.loads.librdkafka_load",
    "idempotence": "benchmarks.loads.idempotence_load",
    "compaction": "benchmarks.loads.compaction_load",
    "groups": "benchmarks.loads.group_load",
    "client": "benchmarks.client_throughput",
    "coordination": "benchmarks.coordination_load",
    "audit": "benchmarks.audit_load",
    "replication": "benchmarks.replication_load",
    "failover": "benchmarks.failover_load",
}
INTRODUCTION: Final = """# Benchmarks

Written by `make bench`. Every figure is a median of alternating runs; the reference beside it ran
in the same minute on the same machine, so read the ratios: absolute figures differ from machine
to machine. The broker is one process kept on one core, the generator on another.

The plain loopback stream is the least steady reference: on one machine of two virtual cores it gave
1.6 GB/s in some minutes and 4 GB/s in others, while the broker's own rate hardly moved.

"""


def main(arguments: list[str]) -> int:
    """Run the loads that are named (all by default); return 0 when every goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LOADS))
    names = parser.parse_args(arguments).names or list(LOADS)
    if unknown := set(names) - set(LOADS):
        parser.error(f"unknown load {', '.join(sorted(unknown))}; there are {', '.join(LOADS)}")
    console = Console()
    pin(0, GENERATOR_CORE)
    figures = [figure for name in names for figure in _run(name, console)]
    console.print(_table(figures))
    if set(names) == set(LOADS):
        _write(figures)
    return 0 if all(figure.is_met is not False for figure in figures) else 1


def _run(name: str, console: Console) -> list[Figure]:
    measure: Callable[[Path], Iterator[Figure]] = importlib.import_module(LOADS[name]).measure
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory, console.status(name):
        return list(measure(Path(directory)))


def _table(figures: list[Figure]) -> Table:
    table = Table("Figure", "Ours", "Reference (same run)", "Ratio", "Goal", "Met")
    for figure in figures:
        table.add_row(*row(figure))
    return table


def _write(figures: list[Figure]) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    measured_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(to_json(figures, commit or "unknown", measured_at) + "\n")
    PAGE.write_text(INTRODUCTION + to_markdown(figures) + f"\nCommit {commit}, {measured_at}.\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
