"""What the host of a virtual machine kept of its processors. Kind: edge.

A share of more than a few hundredths makes every figure worse, and each in its own way: measure
again when the host has less to do. Source: proc(5), /proc/stat.
"""

from pathlib import Path
from typing import Final, NamedTuple

_STAT: Final = Path("/proc/stat")
_IDLE, _IO_WAIT, _STOLEN, _END = 3, 4, 7, 8


class ProcessorTime(NamedTuple):
    """In ticks since the machine was started: wanted by somebody, and of that not granted."""

    wanted: int
    stolen: int


def processor_time() -> ProcessorTime:
    """Return what all processors together have done so far."""
    ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:]]
    wanted = sum(ticks[:_END]) - ticks[_IDLE] - ticks[_IO_WAIT]
    return ProcessorTime(wanted, ticks[_STOLEN])


def stolen_share(before: ProcessorTime, after: ProcessorTime) -> float:
    """Return how much of what was wanted between two looks the host did not grant, of 1."""
    return (after.stolen - before.stolen) / max(1, after.wanted - before.wanted)
