"""Deliberate truncation of a damaged log (edge): `--truncate-at FILE:OFFSET`.

It runs only on an operator's request. Copies of the discarded data stay beside the log, as
`*.discarded`.
"""

import shutil
from pathlib import Path

from coordination.errors import DataError
from coordination.server.disk import wal
from coordination.server.disk.data_dir import DataDir, segments_of
from coordination.server.disk.wal import ALLOCATION_STEP_BYTES


def truncate_at(data_dir: DataDir, place: str) -> list[Path]:
    """Truncate the log at FILE:OFFSET, as printed by a failed start; return the files set aside.

    Raises:
        DataError: `place` is not a position in the log.
    """
    name, _, number = place.rpartition(":")
    path = data_dir.path / name
    if not number.isdigit() or path not in [found for _, found in segments_of(data_dir.path)]:
        raise DataError(f"{place!r} is not FILE:OFFSET of a log segment in {data_dir.path}")
    offset = max(int(number), wal.HEADER_BYTES)
    later = [found for _, found in segments_of(data_dir.path) if found > path]
    aside = [_set_aside(found) for found in later]
    shutil.copy2(path, path.with_suffix(".log.discarded"))
    with path.open("r+b") as file:
        header = wal.decode_header(file.read(wal.HEADER_BYTES))
        if header is None:
            path.unlink()
        else:
            # Filled with zeros up to an allocation step, like an open segment.
            file.truncate(offset)
            file.truncate(-(-offset // ALLOCATION_STEP_BYTES) * ALLOCATION_STEP_BYTES)
    return [path.with_suffix(".log.discarded"), *aside]


def _set_aside(path: Path) -> Path:
    return path.rename(path.with_suffix(".log.discarded"))
