"""Compares the replicas of a partition, byte by byte. Edge: reads segments of stopped brokers.

Followers may roll segments at other offsets than their leader, so the comparison covers whole logs,
not files, and only below the high watermark, above which replicas may differ.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition

_HEAD: Final = struct.Struct(">qi")
"""Base offset of a batch, and the number of bytes after these two fields."""
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_DELTA_POSITION: Final = 23


def committed_batches(
    log_directory: Path, where: TopicPartition, high_watermark: int
) -> dict[int, bytes]:
    """Return the batches that end below `high_watermark` (exclusive), by base offset."""
    found: dict[int, bytes] = {}
    for segment in sorted((log_directory / f"{where.topic}-{where.partition}").glob("*.log")):
        found |= {
            base_offset: batch
            for base_offset, last_offset, batch in _batches(segment.read_bytes())
            if last_offset < high_watermark
        }
    return found


def _batches(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while position + _HEAD.size <= len(data):
        base_offset, length = _HEAD.unpack_from(data, position)
        if length <= 0:
            # Preallocated space without data.
            return
        end = position + _HEAD.size + length
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _DELTA_POSITION)
        yield base_offset, base_offset + delta, data[position:end]
        position = end


def differences(
    log_directories: dict[int, Path], where: TopicPartition, high_watermark: int
) -> list[str]:
    """Return a sentence for each replica that differs from the first one."""
    (first, first_path), *others = sorted(log_directories.items())
    expected = committed_batches(first_path, where, high_watermark)
    found = []
    for number, path in others:
        batches = committed_batches(path, where, high_watermark)
        if batches != expected:
            odd = sorted(
                offset
                for offset in expected.keys() | batches.keys()
                if expected.get(offset) != batches.get(offset)
            )
            found.append(f"{where} on broker {number} differs from broker {first} at {odd[:5]}")
    return found
