"""The report of a cleaner about an error: `storage.compaction.worker`."""

import errno
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.compaction import worker
from storage.compaction.job import CleaningFailed, Report, read_report
from storage.errors import CorruptLogError, OffsetOverflowError, StorageError
from tests.unit.storage.compacting import COMPACTED, job_of, put
from tests.unit.storage.logs import open_log


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [
        (CorruptLogError(Path("0.log"), 0, "a flipped bit"), True),
        (OffsetOverflowError("too far"), True),
        (OSError(errno.EIO, "the disk has failed"), True),
        (OSError(errno.ENOSPC, "no space"), False),
        (OSError(errno.ENOENT, "deleted meanwhile"), False),
        (StorageError("the map is too small"), False),
        (MemoryError(), False),
        (ZeroDivisionError("a bug"), False),
    ],
)
def test_only_damage_and_failed_disks_make_a_log_uncleanable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_damage: bool
) -> None:
    class Failing:
        def __init__(self, *_: object, **__: object) -> None: ...

        def clean(self) -> Iterator[Report]:
            raise error

    monkeypatch.setattr(worker, "Cleaner", Failing)
    log = open_log(tmp_path / "orders-0", COMPACTED)
    put(log, (b"a", b"1"))
    sink = io.StringIO()
    worker.main(io.StringIO(job_of(log).to_line()), sink)
    [line] = sink.getvalue().splitlines()
    report = read_report(line)
    assert isinstance(report, CleaningFailed)
    assert report.is_damage is is_damage
