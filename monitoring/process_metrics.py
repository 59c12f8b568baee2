"""The metrics of this process, with the names of Prometheus' own libraries (edge)."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from monitoring.exposition import COUNTER, GAUGE, Family, Value

CPU: Final = Family(
    name="process_cpu_seconds_total",
    kind=COUNTER,
    meaning="Processor time of the process, in user and system mode.",
)
RESIDENT: Final = Family(
    name="process_resident_memory_bytes", kind=GAUGE, meaning="Memory of the process in use."
)
VIRTUAL: Final = Family(
    name="process_virtual_memory_bytes", kind=GAUGE, meaning="Address space of the process."
)
OPEN_FILES: Final = Family(
    name="process_open_fds", kind=GAUGE, meaning="Open files and sockets of the process."
)
MAX_FILES: Final = Family(
    name="process_max_fds", kind=GAUGE, meaning="Limit of open files and sockets."
)
START: Final = Family(
    name="process_start_time_seconds",
    kind=GAUGE,
    meaning="Time at which the process started, in seconds since 1970.",
)
PROCESS_FAMILIES: Final = (CPU, RESIDENT, VIRTUAL, OPEN_FILES, MAX_FILES, START)
_PROC: Final = Path("/proc")
STEP_FILES: Final = 500
_START_FIELD: Final = 19
"""Of /proc/self/stat, counted behind the name of the program."""


def process_pieces() -> Iterator[str]:
    """Yield the text of the metrics; some of them need /proc."""
    for family, value in _values():
        yield from family.pieces([((), value)])
    try:
        yield from _open_files()
    except OSError:
        # Another system than Linux.
        return


def _values() -> Iterator[tuple[Family, Value]]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield CPU, used.ru_utime + used.ru_stime
    yield MAX_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        pages = (_PROC / "self/statm").read_text(encoding="ascii").split()
        yield VIRTUAL, int(pages[0]) * resource.getpagesize()
        yield RESIDENT, int(pages[1]) * resource.getpagesize()
        yield START, _start_time_s()
    except (OSError, IndexError, ValueError):
        # Another system than Linux.
        return


def _open_files() -> Iterator[str]:
    folder = _PROC / "self/fd"
    # The number of files since Linux 6.2, before that 0. Counting takes a microsecond for each.
    count = folder.stat().st_size
    if not count:
        with os.scandir(folder) as found:
            for _ in found:
                count += 1
                if not count % STEP_FILES:
                    yield ""
    yield from OPEN_FILES.pieces([((), count)])


@cache
def _start_time_s() -> float:
    # Once, because the file with the time of the boot takes a millisecond.
    fields = (_PROC / "self/stat").read_text(errors="replace").rpartition(")")[2].split()
    booted = (_PROC / "stat").read_text(encoding="ascii").partition("btime ")[2].split()[0]
    return int(booted) + int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
