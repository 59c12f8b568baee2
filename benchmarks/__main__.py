"""`python -m benchmarks [NAME ...]`: run the whole-process loads and write their results.

Composition: selects the loads, gives each an empty folder, prints the table, and writes a file per
load in `benchmarks/results/` and the page `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.loads.host import processor_time, stolen_share
from benchmarks.loads.process import GENERATOR_CORE, pin
from benchmarks.loads.result import Figure, figures_of, row, to_json, to_markdown

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
PAGE: Final = ROOT / "docs" / "benchmarks.md"
LOADS: Final = {
    "startup": "benchmarks.loads.startup_load",
    "produce": "benchmarks.loads.produce_load",
    "fetch": "benchmarks.loads.fetch_load",
    "librdkafka": "benchmarks.loads.librdkafka_load",
    "idempotence": "benchmarks.loads.idempotence_load",
    "transactions": "benchmarks.loads.transaction_load",
    "compaction": "benchmarks.loads.compaction_load",
    "groups": "benchmarks.loads.group_load",
    "client": "benchmarks.client_throughput",
    "idle": "benchmarks.idle_consumers",
    "scrape": "benchmarks.metrics_scrape",
    "coordination": "benchmarks.coordination_load",
    "audit": "benchmarks.audit_load",
    "replication": "benchmarks.replication_load",
    "failover": "benchmarks.failover_load",
    "secured": "benchmarks.loads.secured_load",
}
INTRODUCTION: Final = """# Benchmarks

Written by `make bench`; `python -m benchmarks NAME ...` repeats some of the loads. Most figures
are medians of alternating runs, with a reference in the same minute on the same machine; audits, a
start with many segments and the creation of a topic were measured once. Read the
ratios: absolute figures differ from machine to machine. A load on one broker pins its process to
one core and the generator to another.

Each load states its interpreter: an interpreter built with a profile (`--enable-optimizations`, or
a distribution's own build) needs less CPU per request than others, and so does a broker with
compiled modules.

On a virtual machine the host may grant less processor time than requested: if a run reports more
than a few percent, its latencies mean little.

The plain loopback stream is the least steady reference: on one machine with two virtual cores it
varied from 1.6 GB/s to 4 GB/s within minutes, while the broker's own rate hardly changed. Some
loads therefore have a second reference, the maximum of any server: one that only receives, checks,
writes and answers the same batches, or, for librdkafka, one that answers and stores nothing. If
that reference is below the goal, the machine or the client is the limit: no broker can reach it.

"""


def main(arguments: list[str]) -> int:
    """Run the named loads (all by default); return 0 if every goal was met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LOADS))
    names = parser.parse_args(arguments).names or list(LOADS)
    if unknown := set(names) - set(LOADS):
        parser.error(f"unknown load {', '.join(sorted(unknown))}; there are {', '.join(LOADS)}")
    console = Console()
    pin(0, GENERATOR_CORE)
    figures = []
    for name in names:
        before = processor_time()
        found = _run(name, console)
        stolen = stolen_share(before, processor_time())
        console.print(_table(found))
        console.print(f"The host took {stolen:.0%} of the requested processor time.")
        _write(name, found, stolen)
        figures += found
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


def _write(name: str, figures: list[Figure], stolen: float) -> None:
    """Store the figures of a load, and write the page of the latest figures of all loads."""
    measured_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = to_json(figures, _commit(), measured_at, stolen)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(INTRODUCTION + "".join(_sections()), encoding="utf-8")


def _sections() -> Iterator[str]:
    for name in LOADS:
        path = RESULTS / f"{name}.json"
        if path.exists():
            run = json.loads(path.read_text(encoding="utf-8"))
            table = to_markdown(figures_of(run))
            yield f"## {name}\n\n{table}\n{_origin(run)}\n\n"


def _origin(run: Mapping[str, Any]) -> str:
    """Return the commit, time and interpreter of a run, as one sentence."""
    machine = run["machine"]
    loops = {True: ", compiled loops", False: ", no compiled loops", None: ""}
    hot = {True: " and hot modules", False: ", no compiled hot modules", None: ""}
    build = loops[machine.get("compiled_modules")] + hot[machine.get("compiled_hot_modules")]
    stolen = machine.get("stolen_share")
    host = "" if stolen is None else f"; the host took {stolen:.0%} of the processor time"
    return (
        f"Commit {run['commit']}, {run['measured_at']}; CPython {machine['python']}{build}{host}."
    )


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
