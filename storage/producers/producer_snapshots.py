"""The producer snapshots of a partition (edge).

Bytes on disk: `<offset>.snapshot` (see `producer_snapshot`), one for the start of each segment, and
one for the log end after a clean shutdown. A snapshot is not synced when it is written, but with
its segment. If it is damaged or missing, the next start only has to read more of the log.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog

from kafkawire.ids import Offset
from storage.disk.layout import PRODUCER_SNAPSHOT_SUFFIX, parse_segment_file, segment_file
from storage.errors import CorruptSnapshotError
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_snapshot import decode_snapshot, encode_snapshot

log = structlog.get_logger(__name__)


def write_snapshot(
    directory: Path,
    offset: Offset,
    entries: Iterable[ProducerEntry],
    *,
    is_durable: bool = False,
) -> None:
    """Write the snapshot of the producers for a log that ends at `offset`.

    Raises:
        OSError: there is no snapshot at `offset`.
    """
    path = segment_file(directory, offset, PRODUCER_SNAPSHOT_SUFFIX)
    # A new file, because a copy of the log may hold a hard link to the old one.
    path.unlink(missing_ok=True)
    try:
        with path.open("wb") as file:
            file.write(encode_snapshot(entries))
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        # A full disk has room for the name, but not for the content.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def read_newest(directory: Path, offsets: Iterable[Offset]) -> tuple[Offset, list[ProducerEntry]]:
    """Return the newest valid snapshot at one of `offsets`; (0, []) if there is none.

    Damaged snapshots are removed.
    """
    for offset in sorted(offsets, reverse=True):
        entries = _read(directory, offset)
        if entries is not None:
            return offset, entries
    return Offset(0), []


def remove_damaged(directory: Path, offsets: Iterable[Offset]) -> list[Offset]:
    """Remove the damaged snapshots at `offsets`, and return the offsets of the others."""
    return [offset for offset in offsets if _read(directory, offset) is not None]


def _read(directory: Path, offset: Offset) -> list[ProducerEntry] | None:
    """Return the snapshot at `offset`; remove it, and return None, if it is damaged."""
    path = segment_file(directory, offset, PRODUCER_SNAPSHOT_SUFFIX)
    try:
        return decode_snapshot(path.read_bytes())
    except FileNotFoundError:
        # An earlier read has removed it.
        return None
    except CorruptSnapshotError as error:
        log.warning("snapshot.ignored", path=str(path), error=str(error))
        path.unlink()
        return None


def snapshot_offsets(directory: Path) -> list[Offset]:
    """Return the offsets of all snapshots."""
    names = (parse_segment_file(path.name) for path in directory.iterdir())
    return sorted(
        name.base_offset
        for name in names
        if name is not None and name.suffix == PRODUCER_SNAPSHOT_SUFFIX and not name.state
    )


def remove_stray(
    directory: Path, offsets: Iterable[Offset], bases: Iterable[Offset], end_offset: Offset
) -> list[Offset]:
    """Remove the snapshots that belong to no segment, and return the offsets of the others.

    `bases` are the base offsets of the segments, in order. The newest snapshot between the last of
    them and `end_offset` is kept, because a clean shutdown writes one there.
    """
    bases = list(bases)
    last_base = bases[-1] if bases else Offset(0)
    offsets = sorted(offsets)
    at_end = [offset for offset in offsets if last_base < offset <= end_offset][-1:]
    kept = [*(offset for offset in offsets if offset in set(bases)), *at_end]
    remove(directory, set(offsets) - set(kept))
    return kept


def remove(directory: Path, offsets: Iterable[Offset]) -> None:
    """Remove the snapshots at `offsets`."""
    for offset in offsets:
        segment_file(directory, offset, PRODUCER_SNAPSHOT_SUFFIX).unlink(missing_ok=True)
