"""Recovery of the state from files (edge): newest valid snapshot, then replay of the log.

Nothing is repaired silently. A torn tail, which was never acknowledged, is reported and left out.
Any other damage stops the start, with the file, the offset and the remedy. One remedy is a
deliberate truncation, `--truncate-at FILE:OFFSET`, which runs only on an operator's request.
"""

import itertools
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from coordination.errors import CorruptDataError, DataError, JuteError
from coordination.server.disk import state_snapshot, wal
from coordination.server.disk.data_dir import (
    DataDir,
    Identity,
    no_snapshot,
    segments_of,
    snapshots_of,
    sync_directory,
)
from coordination.server.disk.wal import ALLOCATION_STEP_BYTES, Ending, Scan
from coordination.server.state.tree import State
from coordination.server.state.txns import unpack_entry


class Recovered(NamedTuple):
    """Recovered state, and the position at which the log continues.

    The next segment continues the chain at `last_crc`, and the open segment ends it at `open_crc`.
    They differ if the log was truncated behind a snapshot.
    """

    state: State
    last_crc: int
    replayed_count: int
    torn_bytes: int
    open_segment: Path | None
    open_end_offset: int
    open_crc: int = 0


def recover(directory: Path, identity: Identity, *, closed_only: bool = False) -> Recovered:
    """Rebuild the state after the last acknowledged transaction.

    With `closed_only`, the last segment is skipped unless it is closed, because a coordinator is
    writing it.

    Raises:
        CorruptDataError: acknowledged data is damaged or missing.
    """
    state, crc = _newest_snapshot(directory, identity)
    return _Replay(directory, identity, state, crc).run(closed_only)


def _newest_snapshot(directory: Path, identity: Identity) -> tuple[State, int | None]:
    found = snapshots_of(directory)
    for _, path in found:
        try:
            loaded = state_snapshot.load(path)
        except state_snapshot.InvalidSnapshotError:
            continue
        if loaded.store_id != identity.store_id:
            raise DataError(f"{path} belongs to another store: move it elsewhere")
        return loaded.state, loaded.wal_crc
    if found:
        raise CorruptDataError(
            str(found[0][1]), 0, "no snapshot passes its checksum", "Restore one from a backup."
        )
    return State(), None


class _Replay:
    def __init__(self, directory: Path, identity: Identity, state: State, crc: int | None) -> None:
        self._directory = directory
        self._identity = identity
        self._state = state
        self._crc = crc
        self._replayed_count = 0

    def run(self, closed_only: bool) -> Recovered:
        segments = self._needed_segments()
        last: tuple[Path, Scan, int] | None = None
        for index, (first_zxid, path) in enumerate(segments):
            is_last = index == len(segments) - 1
            data = path.read_bytes()
            if closed_only and is_last and not _is_closed(data):
                break
            scan = self._scan(path, first_zxid, data, is_last)
            self._replay(path, scan)
            last = (path, scan, len(data))
        return self._result(last)

    def _needed_segments(self) -> list[tuple[int, Path]]:
        segments = segments_of(self._directory)
        wanted = self._state.zxid + 1
        # The last segment that begins at or before the wanted transaction, and all later ones.
        begins = [index for index, (first, _) in enumerate(segments) if first <= wanted]
        needed = segments[begins[-1] :] if begins else segments
        if needed and needed[0][0] > wanted:
            raise CorruptDataError(
                str(needed[0][1]),
                0,
                f"transactions {wanted}..{needed[0][0] - 1} are missing before it",
                "Restore the missing segment from a backup.",
            )
        return needed

    def _scan(self, path: Path, first_zxid: int, data: bytes, is_last: bool) -> Scan:
        header = wal.decode_header(data)
        if header is None:
            # A segment gets its name only once its header is on disk: this is not a torn write.
            raise _damage(path, 0, "its header is damaged")
        if header.store_id != self._identity.store_id:
            raise DataError(f"{path} belongs to another store: move it elsewhere")
        if header.first_zxid != first_zxid:
            raise _damage(path, 0, f"its header says that it begins with {header.first_zxid}")
        starts_here = self._replayed_count == 0 and first_zxid <= self._state.zxid
        if self._crc is not None and not starts_here and header.previous_crc != self._crc:
            raise _damage(path, 0, "it does not continue the segment before it")
        scan = wal.scan(data, header)
        if scan.ending is Ending.DAMAGED:
            raise _damage(path, scan.end_offset, "a valid batch follows an invalid one")
        if scan.ending is Ending.CUT:
            raise _damage(path, scan.end_offset, "the file was cut here")
        if not is_last and scan.ending is not Ending.CLOSED:
            raise _damage(path, scan.end_offset, "it ends early, but a later segment exists")
        return scan

    def _replay(self, path: Path, scan: Scan) -> None:
        state = self._state
        last_zxid = 0
        for batch in scan.batches:
            for fields in wal.decode_entries(batch.payload):
                last_zxid = fields[0]
                if last_zxid <= state.zxid:
                    continue
                if last_zxid != state.zxid + 1:
                    raise _damage(
                        path, batch.offset, f"transaction {state.zxid + 1} is missing before it"
                    )
                try:
                    state.apply(unpack_entry(fields))
                except (JuteError, LookupError, AssertionError) as error:
                    raise _damage(path, batch.offset, f"cannot be replayed: {error}") from error
                self._replayed_count += 1
        # After a repair the log may end before the snapshot, and the chain continues the snapshot.
        if self._crc is None or last_zxid == state.zxid:
            self._crc = scan.last_crc

    def _result(self, last: tuple[Path, Scan, int] | None) -> Recovered:
        crc = self._crc or 0
        if last is None or last[1].ending is Ending.CLOSED:
            return Recovered(self._state, crc, self._replayed_count, 0, None, 0)
        path, scan, size_bytes = last
        torn = size_bytes - scan.end_offset if scan.ending is Ending.TORN else 0
        return Recovered(
            self._state, crc, self._replayed_count, torn, path, scan.end_offset, scan.last_crc
        )


def _is_closed(data: bytes) -> bool:
    header = wal.decode_header(data)
    return header is not None and wal.scan(data, header).ending is Ending.CLOSED


def _damage(path: Path, offset: int, reason: str) -> CorruptDataError:
    repair = (
        "Restore the data directory from a backup, or discard everything after that byte: "
        f"ottla coordinator --data-dir {path.parent} --truncate-at {path.name}:{offset}"
    )
    return CorruptDataError(str(path), offset, reason, repair)


def truncate_at(data_dir: DataDir, place: str) -> list[Path]:
    """Truncate the log at FILE:OFFSET, as printed by a failed start; return the files set aside.

    Copies of the discarded data stay beside the log, as `*.discarded`; later ones of a segment as
    `*.discarded.1` and so on.

    Raises:
        DataError: `place` is not a position in the log, or a snapshot is being made of it.
    """
    with no_snapshot(data_dir.path):
        return _truncate_at(data_dir, place)


def _truncate_at(data_dir: DataDir, place: str) -> list[Path]:
    name, _, number = place.rpartition(":")
    path = data_dir.path / name
    if not number.isdigit() or path not in [found for _, found in segments_of(data_dir.path)]:
        raise DataError(f"{place!r} is not FILE:OFFSET of a log segment in {data_dir.path}")
    offset = max(int(number), wal.HEADER_BYTES)
    later = [found for _, found in segments_of(data_dir.path) if found > path]
    aside = [_set_aside(found) for found in later]
    copy = _unused_name(path)
    shutil.copy2(path, copy)
    with copy.open("r+b") as file:
        os.fsync(file.fileno())
    with path.open("r+b") as file:
        header = wal.decode_header(file.read(wal.HEADER_BYTES))
        if header is None:
            path.unlink()
        else:
            # Filled with zeros up to an allocation step, like an open segment.
            file.truncate(offset)
            file.truncate(-(-offset // ALLOCATION_STEP_BYTES) * ALLOCATION_STEP_BYTES)
            os.fsync(file.fileno())
    # Otherwise the damage would be back after a loss of power.
    sync_directory(data_dir.path)
    return [copy, *aside]


def _set_aside(path: Path) -> Path:
    return path.rename(_unused_name(path))


def _unused_name(path: Path) -> Path:
    """Return a name for the discarded data of a segment that no earlier truncation has used."""
    first = path.with_suffix(".log.discarded")
    later = (first.with_name(f"{first.name}.{number}") for number in itertools.count(1))
    return next(each for each in itertools.chain([first], later) if not each.exists())
