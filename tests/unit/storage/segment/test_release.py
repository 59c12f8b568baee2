"""Segments whose files are closed: after a deletion, and while another thread syncs them."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from storage.log.log import Log
from storage.segment.segment import Segment
from tests.unit.storage.compacting import COMPACTED, clean, put
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    SMALL,
    create,
    fill,
    log_of,
    offsets_in,
    open_log,
    open_logs,
    read_all,
)

PATIENCE_S = 0.2
"""Time that a sync gets to run into a file that is being closed."""
DELETIONS: dict[str, Callable[[Log], object]] = {
    "retention": lambda log: log.delete_oldest(len(log.segments) - 1, NOW_MS),
    "DeleteRecords": lambda log: log.advance_log_start(log.segments[-1].base_offset),
    "truncation": lambda log: log.truncate_to(Offset(1)),
    "restart": lambda log: log.truncate_fully_and_start_at(Offset(0)),
    "compaction": clean,
}


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """Collect no garbage, as it is for objects that were frozen at the start of a broker."""
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


def descriptors() -> int:
    """Return the number of open descriptors."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS.keys())
def test_a_deleted_segment_closes_its_files(
    tmp_path: Path, delete: Callable[[Log], object]
) -> None:
    log = open_log(tmp_path / "orders-0", COMPACTED)
    for number in range(100):
        put(log, (b"key", b"%d" % number * 30))
    assert len(log.segments) > 5
    log.upkeep.release_closed()
    before = descriptors()
    read_all(log)
    assert descriptors() > before + 10
    delete(log)
    assert descriptors() <= before


@pytest.mark.usefixtures("_no_collection")
def test_a_deleted_log_closes_its_files(one: Path) -> None:
    logs = open_logs(one)
    before = descriptors()
    fill(create(logs), 100)
    assert offsets_in(read_all(log_of(logs))) == list(range(100))
    logs.delete(PARTITION)
    assert descriptors() == before
    logs.close()


def test_a_sync_never_uses_a_file_that_is_being_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the descriptor is closed, other threads run."""
    segment = Segment.create(tmp_path, Offset(0), SMALL, NOW_MS)
    segment.close()
    descriptor, close = segment.file.fileno(), os.close
    errors: list[OSError] = []

    def sync() -> None:
        try:
            segment.sync()
        except OSError as error:
            errors.append(error)

    syncing = threading.Thread(target=sync)

    def close_and_sync(number: int) -> None:
        close(number)
        if number == descriptor and syncing.ident is None:
            syncing.start()
            syncing.join(PATIENCE_S)

    monkeypatch.setattr(os, "close", close_and_sync)
    segment.release()
    syncing.join()
    assert errors == []
