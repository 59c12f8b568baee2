"""Transactions are compared with their indexes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from kafkawire.records import ControlType
from logcheck.finding import Damage, Severity
from logcheck.history import History
from logcheck.transaction_check import TransactionCheck
from logcheck.transaction_index import ENTRY, IndexFile, TransactionIndex
from tests.unit.logcheck.partition_bytes import FILE, Reported
from tests.unit.logcheck.producer_bytes import (
    corrupt,
    data,
    emptied,
    files_of,
    marker,
    plain,
    scan_of,
)

NOT_COMPACTED = History(cleanup_policy="delete")
OTHER = 8


def entry(last: int, first: int = 0, *, stable: int | None = None) -> bytes:
    """Return the entry of an aborted transaction."""
    return ENTRY.pack(0, 7, first, last, last + 1 if stable is None else stable)


@dataclass
class Partition:
    """A log of one segment, and its transaction index."""

    batches: Sequence[bytearray]
    index: bytes = b""
    history: History = NOT_COMPACTED

    def findings(self) -> list[tuple[Damage, int | None, Severity]]:
        reported = Reported()
        scan = scan_of(self.batches, history=self.history)
        index = IndexFile(FILE, 0, None, self.index)
        check = TransactionCheck(
            TransactionIndex([index], reported),
            lambda _: index,
            files_of(self.batches),
            self.history,
            scan.offsets,
            0,
            reported,
        )
        scan.run([check])
        check.conclude(scan)
        return [(each.damage, each.offset, each.severity) for each in reported.findings]


ABORTED = (data(0), marker(1))


def test_aborted_transaction_agrees_with_its_entry() -> None:
    assert Partition(ABORTED, entry(1)).findings() == []


def test_last_stable_offset_beyond_the_end_of_the_log_is_reported() -> None:
    expected = [(Damage.TXNINDEX_STABLE, 1, Severity.ERROR)]
    assert Partition(ABORTED, entry(1, stable=1_000)).findings() == expected


def test_last_stable_offset_is_not_the_start_of_the_producers_own_next_transaction() -> None:
    log = [*ABORTED, plain(2), data(3, 1), data(4, 2), data(5, producer_id=OTHER)]
    assert Partition(log, entry(1, stable=5)).findings() == []
    for own in (3, 4):
        assert Partition(log, entry(1, stable=own)).findings() == [
            (Damage.TXNINDEX_STABLE, 1, Severity.ERROR)
        ]


def test_cleaner_may_have_removed_the_transaction_whose_start_was_the_last_stable_offset() -> None:
    """Its first batches are gone, since later records have the same keys."""
    log = [*ABORTED, data(4, producer_id=OTHER)]
    wrong = [(Damage.TXNINDEX_STABLE, 1, Severity.ERROR)]
    assert Partition(log, entry(1, stable=3), History()).findings() == []
    assert Partition(log, entry(1, stable=3)).findings() == wrong
    there = [*ABORTED, plain(2), data(4, producer_id=OTHER)]
    assert Partition(there, entry(1, stable=2)).findings() == []
    kept = [*ABORTED, plain(3), data(4, producer_id=OTHER)]
    assert Partition(kept, entry(1, stable=3), History()).findings() == wrong


def test_marker_below_the_log_start_may_be_gone_before_its_records() -> None:
    log = [data(0, producer_id=OTHER), data(2), marker(3)]
    index = entry(3, 2)
    assert Partition(log, index, History(log_start=2)).findings() == []
    wrong = [(Damage.TXNINDEX_STABLE, 3, Severity.ERROR)]
    assert Partition(log, index, History()).findings() == wrong


def test_entry_of_a_marker_below_the_log_start_may_be_gone() -> None:
    log = [*ABORTED, plain(2)]
    missing = Damage.TXNINDEX_MISSING, 1
    for history, severity in (
        (History(log_start=2, recovery_point=3), Severity.NOTE),
        (History(log_start=1, was_stopped=True), Severity.ERROR),
    ):
        assert Partition(log, history=history).findings() == [(*missing, severity)]


def test_kill_during_a_truncation_may_leave_the_last_segment_without_entries() -> None:
    missing = Damage.TXNINDEX_MISSING, 1
    for history, severity in (
        (History(recovery_point=3), Severity.NOTE),
        (History(recovery_point=3, committed_end=3), Severity.WARNING),
        (History(recovery_point=3, was_stopped=True), Severity.ERROR),
        (History(recovery_point=2), Severity.NOTE),
    ):
        assert Partition(ABORTED, history=history).findings() == [(*missing, severity)]


def test_emptied_batch_need_not_be_the_start_of_an_open_transaction() -> None:
    log = [*ABORTED, emptied(data(2, producer_id=OTHER)), data(4, producer_id=9)]
    assert Partition(log, entry(1, stable=4), History()).findings() == []
    assert Partition(log, entry(1, stable=2), History()).findings() == []


def test_entry_that_begins_behind_the_first_record_is_reported() -> None:
    log = [data(0), data(1, 1), marker(2)]
    assert Partition(log, entry(2, first=1)).findings() == [
        (Damage.TXNINDEX_RANGE, 2, Severity.ERROR)
    ]


@pytest.mark.parametrize("history", [History(), History(log_start=5)])
def test_entry_that_reaches_back_over_another_transaction_is_reported(history: History) -> None:
    """A reader of this entry would omit the committed records, too."""
    ended = [data(5), marker(6, ControlType.COMMIT)]
    log = [data(7, 1), marker(8)]
    assert Partition([*ended, *log], entry(8, first=2), history).findings() == [
        (Damage.TXNINDEX_RANGE, 8, Severity.ERROR)
    ]
    other = [data(5, producer_id=OTHER), marker(6, producer_id=OTHER)]
    index = ENTRY.pack(0, OTHER, 5, 6, 7) + entry(8, first=2)
    assert Partition([*other, *log], index, history).findings() == [], "its start may be gone"


def test_emptied_batch_may_be_the_start_of_a_transaction_that_was_open() -> None:
    log = [emptied(data(0, producer_id=OTHER)), data(1), marker(2)]
    assert Partition(log, entry(2, 1, stable=0)).findings() == []
    wrong = [(Damage.TXNINDEX_STABLE, 2, Severity.ERROR)]
    assert Partition([plain(0), *log[1:]], entry(2, 1, stable=0)).findings() == wrong


@pytest.mark.parametrize("first", [data(0), emptied(data(0))])
def test_entry_may_begin_at_a_batch_that_a_cleaner_emptied(first: bytearray) -> None:
    assert Partition([first, data(1, 1), marker(2)], entry(2), History()).findings() == []


@pytest.mark.parametrize(
    ("second", "history", "severities"),
    [
        pytest.param(plain(1), History(), [Severity.ERROR], id="another batch"),
        pytest.param(None, NOT_COMPACTED, [Severity.ERROR], id="no batch"),
        pytest.param(None, History(), [], id="may be cleaned away"),
        pytest.param(emptied(marker(1)), History(), [], id="emptied by a cleaner"),
        pytest.param(corrupt(marker(1)), NOT_COMPACTED, [], id="damaged"),
    ],
)
def test_entry_without_its_marker_is_judged_by_the_log(
    second: bytearray | None, history: History, severities: list[Severity]
) -> None:
    log = [plain(0), *([] if second is None else [second]), plain(2)]
    expected = [(Damage.TXNINDEX_ENTRY, 1, severity) for severity in severities]
    assert Partition(log, entry(1), history).findings() == expected


@pytest.mark.parametrize(
    ("recovery_point", "severity"), [(5, Severity.WARNING), (6, Severity.ERROR)]
)
def test_entry_beyond_the_end_of_the_log_is_possible_after_a_loss_of_power(
    recovery_point: int, severity: Severity
) -> None:
    history = replace(NOT_COMPACTED, recovery_point=recovery_point)
    assert Partition([plain(0)], entry(5), history).findings() == [
        (Damage.TXNINDEX_ENTRY, 5, severity)
    ]


@pytest.mark.parametrize(
    ("history", "severity"),
    [
        pytest.param(History(recovery_point=1), Severity.NOTE, id="killed before it was written"),
        pytest.param(History(recovery_point=2), Severity.NOTE, id="the point of a longer log"),
        pytest.param(History(was_stopped=True), Severity.ERROR, id="stopped cleanly"),
    ],
)
def test_entry_of_the_last_marker_may_be_missing(history: History, severity: Severity) -> None:
    assert Partition(ABORTED, history=history).findings() == [
        (Damage.TXNINDEX_MISSING, 1, severity)
    ]


def test_entry_is_not_missing_before_later_ones() -> None:
    log = [*ABORTED, data(2), marker(3)]
    assert Partition(log, entry(3, first=2), History()).findings() == [
        (Damage.TXNINDEX_MISSING, 1, Severity.ERROR)
    ]


@pytest.mark.parametrize(
    ("log_start", "first", "severities"),
    [
        pytest.param(0, data(0), [Severity.ERROR], id="records"),
        pytest.param(0, emptied(data(0)), [], id="no records"),
        pytest.param(1, data(0), [], id="records below the log start"),
    ],
)
def test_marker_of_remaining_records_must_not_be_emptied(
    log_start: int, first: bytearray, severities: list[Severity]
) -> None:
    log = [first, emptied(marker(1)), plain(2)]
    expected = [(Damage.MARKER_LOST, 1, severity) for severity in severities]
    assert Partition(log, history=History(log_start=log_start)).findings() == expected
