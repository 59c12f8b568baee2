"""Cleanup of unfinished operations in a partition's directory after a crash (edge).

At startup each kind of leftover is either completed or undone:

- `*.deleted`: obsolete before the crash; removed.
- `*.cleaned`: still being written by a cleaner; removed, together with the `*.swap` files from its
  offset on, which belong to the same unfinished split of a segment.
- `*.swap`: complete and on disk; replaces the segments whose offsets it covers.
- an index without a log: removed. (Producer snapshots are independent of logs.)

This table is correct because the cleaner renames its files in a fixed order.
Source: Kafka's LogLoader.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kafkawire.ids import Offset
from storage.disk.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFileName,
    parse_segment_file,
)
from storage.segment.batch_scan import walk_headers
from storage.segment.log_file import LogFile

log = structlog.get_logger(__name__)

NOWHERE: Final = 2**63
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_SUFFIXES: Final = (*SEGMENT_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)


class FoundSegment(NamedTuple):
    """A segment of a directory."""

    base_offset: Offset
    size_bytes: int
    has_indexes: bool
    has_aborted: bool
    """Whether the segment has an index of aborted transactions, which is optional."""


class Found(NamedTuple):
    """The segments and the offsets of producer snapshots in a directory, oldest first."""

    segments: list[FoundSegment]
    snapshot_offsets: list[Offset]


def tidy(directory: Path) -> Found:
    """Remove all files except complete segments and producer snapshots; return the rest."""
    sizes = _sizes(directory)
    logs = {name.base_offset for name in sizes if name.suffix == LOG_SUFFIX and not name.state}
    # After a clean shutdown this costs a single listing.
    if any(
        name.state or (name.base_offset not in logs and not _is_snapshot(name)) for name in sizes
    ):
        _tidy(directory)
        sizes = _sizes(directory)
    segments = [
        FoundSegment(
            name.base_offset,
            size,
            has_indexes=all(
                SegmentFileName(name.base_offset, each, "") in sizes for each in INDEX_SUFFIXES
            ),
            has_aborted=SegmentFileName(name.base_offset, TRANSACTION_INDEX_SUFFIX, "") in sizes,
        )
        for name, size in sizes.items()
        if name.suffix == LOG_SUFFIX
    ]
    return Found(segments, [name.base_offset for name in sizes if _is_snapshot(name)])


def holds_segments(directory: Path) -> bool:
    """Whether there is a segment other than the initial, empty one."""
    return any(
        name.suffix == LOG_SUFFIX and (name.base_offset or size)
        for name, size in _sizes(directory).items()
    )


def _is_snapshot(name: SegmentFileName) -> bool:
    """Whether this is a live producer snapshot."""
    return name.suffix == PRODUCER_SNAPSHOT_SUFFIX and not name.state


def _tidy(directory: Path) -> None:
    _remove((name for name in _list(directory) if name.state == DELETED_SUFFIX), directory)
    cleaned = [name for name in _list(directory) if name.state == CLEANED_SUFFIX]
    first_cleaned = min((name.base_offset for name in cleaned), default=NOWHERE)
    swaps = [name for name in _list(directory) if name.state == SWAP_SUFFIX]
    _remove((name for name in swaps if name.base_offset >= first_cleaned), directory)
    _remove(cleaned, directory)
    _finish_swap([name for name in swaps if name.base_offset < first_cleaned], directory)
    _remove_orphans(directory)


def _finish_swap(swaps: list[SegmentFileName], directory: Path) -> None:
    logs = [name for name in swaps if name.suffix == LOG_SUFFIX]
    if logs:
        first = min(name.base_offset for name in logs)
        ends = [_end_offset(directory / _text(name), name.base_offset) for name in logs]
        # A cleaned segment without batches still replaces the segment at its base offset.
        end = max([first + 1, *ends])
        replaced = [
            name for name in _list(directory) if not name.state and first <= name.base_offset < end
        ]
        _remove(replaced, directory)
        log.info("swap.finished", path=str(directory), first_offset=first, end_offset=end)
    for name in swaps:
        (directory / _text(name)).rename(directory / _text(name._replace(state="")))


def _end_offset(path: Path, base_offset: int) -> int:
    """Return the offset after the last batch in the file."""
    file = LogFile(path, path.stat().st_size)
    end_offset = base_offset
    for _, header in walk_headers(file, 0, file.size_bytes):
        end_offset = header.next_offset
    return end_offset


def _remove_orphans(directory: Path) -> None:
    names = _list(directory)
    with_log = {name.base_offset for name in names if name.suffix == LOG_SUFFIX}
    _remove((name for name in names if name.base_offset not in with_log), directory)


def _list(directory: Path) -> list[SegmentFileName]:
    return [name for name in _sizes(directory) if not _is_snapshot(name)]


def _sizes(directory: Path) -> dict[SegmentFileName, int]:
    """Return the segment files and their sizes, oldest segment first.

    A directory or pipe of such a name is foreign.
    """
    sizes: dict[SegmentFileName, int] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            name = parse_segment_file(entry.name)
            if name is not None and name.suffix in _SUFFIXES and entry.is_file():
                sizes[name] = entry.stat().st_size
    return dict(sorted(sizes.items()))


def _remove(names: Iterable[SegmentFileName], directory: Path) -> None:
    for name in names:
        (directory / _text(name)).unlink()
        log.info("leftover.removed", path=str(directory / _text(name)))


def _text(name: SegmentFileName) -> str:
    return f"{name.base_offset:020d}{name.suffix}{name.state}"
