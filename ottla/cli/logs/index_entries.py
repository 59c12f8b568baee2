"""Parses the fixed-size entries of an index file. Decision: no I/O.

The index of an active segment has the size `segment.index.bytes`, with zeros after its entries.
"""

import struct
from typing import Final

from ottla.cli.logs.finding import Damage, Finding, Report

OFFSET_ENTRY: Final = struct.Struct(">ii")
"""Relative offset, position."""

TIME_ENTRY: Final = struct.Struct(">qi")
"""Timestamp in ms, relative offset."""


def read_entries(
    data: bytes, layout: struct.Struct, file: str, report: Report
) -> list[tuple[int, int]]:
    """Return the entries before the padding; report a partial entry and data after the padding."""
    whole_bytes = len(data) - len(data) % layout.size
    if whole_bytes < len(data):
        text = f"{len(data) - whole_bytes} bytes remain, but an entry has {layout.size}"
        report(_finding(Damage.PARTIAL_ENTRY, file, whole_bytes, text))
    # `rstrip` is fast. An active index has a million entries of padding, each of which would
    # otherwise become a tuple.
    used_bytes = len(data.rstrip(b"\0"))
    used_bytes = min(whole_bytes, -(-used_bytes // layout.size) * layout.size)
    entries: list[tuple[int, int]] = list(layout.iter_unpack(data[:used_bytes]))
    padding = (0, 0)
    if padding not in entries:
        return entries
    count = entries.index(padding)
    text = "entries follow an entry of zeros, which begins the unused part of the file"
    report(_finding(Damage.DATA_AFTER_PADDING, file, count * layout.size, text))
    return entries[:count]


def _finding(damage: Damage, file: str, position: int, text: str) -> Finding:
    return Finding(damage=damage, file=file, position=position, text=text)
