"""The manager prepares the files of a log for a cleaner; tests of the cleaner show the rest."""

from pathlib import Path

import pytest

from kafkawire.ids import Offset
from kafkawire.records import ControlType
from storage.compaction.job import CleaningDone, CleaningFailed, GroupCleaned
from storage.compaction.manager import FAILURE_MEMORY_MS, CleanerManager, Cleaning
from storage.directory.logs import Logs
from storage.errors import OutOfFilesError
from storage.log.log import Log
from tests.faults import Fault, injected
from tests.unit.storage.compacting import (
    COMPACTED,
    append_batch,
    keyed_batch,
    put,
    records_of,
    run,
    settings,
)
from tests.unit.storage.logs import NOW_MS, PARTITION, create, open_logs
from tests.unit.storage.produced_batches import marker, write


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return open_logs(tmp_path, config=COMPACTED)


def with_unwritten_entry(logs: Logs) -> Log:
    """Return a log whose aborted transaction is in its index in memory, but not in the file."""
    log = create(logs, config=COMPACTED)
    put(log, (b"a", b"committed"))
    aborted = keyed_batch([(b"a", b"aborted")], producer=(7, 0, 0), is_transactional=True)
    append_batch(log, aborted)
    log.upkeep.roll(NOW_MS)
    with (
        injected(Fault.NO_DESCRIPTOR, 0, log.directory),
        pytest.raises(OutOfFilesError, match=r"\.txnindex"),
    ):
        write(log, marker(7, 2, ControlType.ABORT))
    assert log.log_end_offset == 3
    return log


def start(logs: Logs, log: Log) -> Cleaning | None:
    manager = CleanerManager(logs, settings(), lambda _partition: log.log_end_offset)
    candidate = manager.candidate(log, NOW_MS)
    assert candidate is not None
    return manager.start(candidate, NOW_MS)


def test_an_aborted_record_replaces_no_other_even_if_its_entry_was_not_written(
    logs: Logs,
) -> None:
    log = with_unwritten_entry(logs)
    cleaning = start(logs, log)
    assert cleaning is not None
    groups, _ = run(cleaning.job)
    assert groups == [GroupCleaned(replaced=(0,), size_bytes=groups[0].size_bytes)]
    assert log.upkeep.begin_swap(groups[0].replaced, groups[0].size_bytes)
    assert log.upkeep.finish_swap(NOW_MS)
    assert [(each.offset, each.value) for each in records_of(log)] == [(Offset(0), b"committed")]


def test_no_cleaning_starts_while_an_entry_cannot_be_written(logs: Logs) -> None:
    log = with_unwritten_entry(logs)
    with injected(Fault.NO_DESCRIPTOR, 0, log.directory):
        assert start(logs, log) is None
    assert start(logs, log) is not None


def test_a_log_that_has_changed_since_the_choice_is_cleaned_as_it_is_now(logs: Logs) -> None:
    log = create(logs, config=COMPACTED)
    for value in (b"1", b"2"):
        put(log, (b"a", value))
        log.upkeep.roll(NOW_MS)
    high_watermark = Offset(2)
    manager = CleanerManager(logs, settings(), lambda _partition: high_watermark)
    chosen = manager.candidate(log, NOW_MS)
    assert chosen is not None
    logs.truncate_to({PARTITION: Offset(1)})
    high_watermark = Offset(1)
    put(log, (b"a", b"uncommitted"))
    log.upkeep.roll(NOW_MS)
    cleaning = manager.start(chosen, NOW_MS)
    assert cleaning is not None
    assert [each.base_offset for each in cleaning.job.segments] == [0]
    assert cleaning.job.first_uncleanable_offset == 1


def test_a_log_that_has_become_clean_since_the_choice_is_not_cleaned(logs: Logs) -> None:
    log = create(logs, config=COMPACTED)
    put(log, (b"a", b"1"))
    log.upkeep.roll(NOW_MS)
    manager = CleanerManager(logs, settings(), lambda _partition: log.log_end_offset)
    chosen = manager.candidate(log, NOW_MS)
    assert chosen is not None
    logs.checkpoints.note_cleaner_offset(PARTITION, Offset(1))
    assert manager.start(chosen, NOW_MS) is None


def test_a_failure_counts_for_an_hour_or_until_a_cleaning_succeeds(logs: Logs) -> None:
    log = create(logs, config=COMPACTED)
    put(log, (b"a", b"1"), (b"a", None))
    log.upkeep.roll(NOW_MS)
    manager = CleanerManager(logs, settings(), lambda _partition: log.log_end_offset)

    def failed_ms(now_ms: int) -> int:
        candidate = manager.candidate(log, now_ms)
        assert candidate is not None
        return candidate.failed_ms

    assert failed_ms(NOW_MS) == 0
    manager.note_failure(PARTITION, NOW_MS)
    assert failed_ms(NOW_MS + FAILURE_MEMORY_MS - 1) == NOW_MS
    assert failed_ms(NOW_MS + FAILURE_MEMORY_MS) == 0
    candidate = manager.candidate(log, NOW_MS)
    assert candidate is not None
    cleaning = manager.start(candidate, NOW_MS)
    assert cleaning is not None
    manager.finish(cleaning, CleaningDone(end_offset=0))
    assert failed_ms(NOW_MS) == 0


def test_a_log_that_moves_is_not_cleaned(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "one", tmp_path / "two", config=COMPACTED)
    log = create(logs, config=COMPACTED)
    put(log, (b"a", b"1"), (b"a", None))
    log.upkeep.roll(NOW_MS)
    manager = CleanerManager(logs, settings(), lambda _partition: log.log_end_offset)
    logs.cleaning = manager
    candidate = manager.candidate(log, NOW_MS)
    assert candidate is not None
    cleaning = manager.start(candidate, NOW_MS)
    assert cleaning is not None
    assert logs.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    assert cleaning.is_aborted
    manager.finish(cleaning, CleaningFailed(error="killed", is_damage=False))
    assert manager.candidate(log, NOW_MS) is None
    assert manager.start(candidate, NOW_MS) is None
    assert not logs.begin_move(PARTITION, logs.table.directories[0], NOW_MS), "it is cancelled"
    assert manager.candidate(log, NOW_MS) is not None
    logs.close()
