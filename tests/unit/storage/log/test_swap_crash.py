"""A crash at any change of the file system during a cleaning loses nothing.

The same holds if the next start crashes as well, at any of its own changes.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from storage.log.log import Log
from tests.unit.storage.compacting import (
    COMPACTED,
    Kept,
    clean,
    latest_values,
    put,
    records_of,
)
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import NOW_MS, check_files, open_log

CLEANED_MS = NOW_MS + 10
LATER_MS = CLEANED_MS + 2 * COMPACTED.delete_retention_ms


def make(directory: Path) -> list[Kept]:
    """Create a log after a first round, with tombstones past their horizon; return its records."""
    log = open_log(directory, COMPACTED)
    for number in range(36):
        value = None if number % 7 == 3 else b"%d" % number * 20
        put(log, (b"key-%d" % (number % 11), value), (b"other-%d" % (number % 3), b"%d" % number))
        if number == 20:
            log.upkeep.roll(NOW_MS)
            clean(log, now_ms=CLEANED_MS)
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    return records_of(log)


def again(directory: Path) -> Log:
    return open_log(directory, COMPACTED, was_clean=False)


def clean_it(directory: Path) -> None:
    clean(open_log(directory, COMPACTED), now_ms=LATER_MS)


def values_of(log: Log) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key; a tombstone equals a missing key."""
    return {key: value for key, value in latest_values(records_of(log)).items() if value}


def crashes(work: Callable[[Path], object], template: Path, target: Path) -> Iterator[int]:
    """Make `work` die at each of its changes in turn, each time on a fresh copy at `target`."""
    number = 0
    while True:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(template, target)
        if not dies_within(number, lambda: work(target)):
            return
        yield number
        number += 1


def test_a_crash_at_each_change_of_a_cleaning(tmp_path: Path) -> None:
    before = make(tmp_path / "template")
    expected = {key: value for key, value in latest_values(before).items() if value}
    directory = tmp_path / "orders-0"

    count = 0
    for _ in crashes(clean_it, tmp_path / "template", directory):
        log = again(directory)
        assert values_of(log) == expected
        assert set(records_of(log)) <= set(before)
        assert log.log_end_offset == 72
        names = {path.name for path in directory.iterdir()}
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        log.upkeep.close()
        check_files(directory, COMPACTED.index_interval_bytes)
        count += 1
    assert count > 30
    # The last run completed.
    assert values_of(again(directory)) == expected
    assert len(records_of(again(directory))) < len(before) / 2


def test_a_crash_of_the_start_that_finishes_a_swap(tmp_path: Path) -> None:
    before = make(tmp_path / "template")
    expected = {key: value for key, value in latest_values(before).items() if value}
    crashed, started = tmp_path / "crashed", tmp_path / "started"
    swaps = 0
    for number in crashes(clean_it, tmp_path / "template", tmp_path / "orders-0"):
        if number % 3 or not list((tmp_path / "orders-0").glob("*.swap")):
            continue
        swaps += 1
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(tmp_path / "orders-0", crashed)
        for _ in crashes(again, crashed, started):
            log = again(started)
            assert values_of(log) == expected
            assert log.log_end_offset == 72
    assert swaps > 3
