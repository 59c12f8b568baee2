"""Processor time that the host of a virtual machine did not grant (edge).

A share of more than a few percent makes every figure worse, and to different degrees. Repeat the
measurement when the host is less busy. Source: proc(5), /proc/stat.
"""

from pathlib import Path
from typing import Final, NamedTuple

_STAT: Final = Path("/proc/stat")
_IDLE, _IO_WAIT, _STOLEN, _END = 3, 4, 7, 8


class ProcessorTime(NamedTuple):
    """Ticks since the boot of the machine: requested processor time, and the part not granted."""

    wanted: int
    stolen: int


def processor_time() -> ProcessorTime:
    """Return the processor time of all processors so far."""
    ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:]]
    wanted = sum(ticks[:_END]) - ticks[_IDLE] - ticks[_IO_WAIT]
    return ProcessorTime(wanted, ticks[_STOLEN])


def stolen_share(before: ProcessorTime, after: ProcessorTime) -> float:
    """Return the share (0..1) of requested time between two readings that was not granted."""
    return (after.stolen - before.stolen) / max(1, after.wanted - before.wanted)
