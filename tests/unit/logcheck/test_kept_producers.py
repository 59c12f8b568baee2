"""A log keeps the last batches of producers, and the markers that its records need."""

from collections.abc import Sequence

import pytest

from kafkawire.records import ControlType
from logcheck.finding import Damage, Severity
from logcheck.history import History
from logcheck.kept_producers import LastBatches, check_last_batches, check_markers
from logcheck.producer_replay import PRODUCER_EXPIRATION_MS, ProducerReplay
from logcheck.transaction_replay import TransactionColumns, TransactionReplay
from tests.unit.logcheck.partition_bytes import FIRST_TIMESTAMP_MS, Reported
from tests.unit.logcheck.producer_bytes import corrupt, data, emptied, marker, plain, scan_of

COMMITTED = (data(0), data(1, 1), marker(2, ControlType.COMMIT), plain(3))
Found = list[tuple[Damage, int | None]]


def compared(
    log: Sequence[bytearray],
    end_offset: int = 4,
    now_ms: int | None = None,
    kept_after_ms: int = 2 * FIRST_TIMESTAMP_MS,
    severity: Severity | None = None,
) -> Found:
    """Compare `log` with COMMITTED below `end_offset`; return the findings with `severity`."""
    reported, now_ms = Reported(), FIRST_TIMESTAMP_MS if now_ms is None else now_ms
    producers, transactions = LastBatches(), TransactionColumns()
    scan_of(COMMITTED, history=History()).run([producers, transactions])
    own_producers, own_transactions = ProducerReplay(), TransactionReplay()
    scan = scan_of(log, history=History())
    scan.run([own_producers, own_transactions])
    end_offset = min(end_offset, scan.log_end_offset)
    check_last_batches(producers, own_producers, scan, end_offset, now_ms, reported)
    check_markers(transactions, own_transactions, scan, end_offset, kept_after_ms, reported)
    return [
        (each.damage, each.offset)
        for each in reported.findings
        if severity in (None, each.severity)
    ]


def test_marker_must_stay_as_long_as_any_record_of_its_transaction() -> None:
    lost = [COMMITTED[0], COMMITTED[1], COMMITTED[3]]
    for log in (lost, lost[1:]):
        assert compared(log) == [(Damage.MARKER_LOST, 2)]


def test_marker_must_stay_for_its_retention() -> None:
    log = [emptied(COMMITTED[1]), COMMITTED[3]]
    assert compared(log, kept_after_ms=0) == [(Damage.MARKER_LOST, 2)]
    assert compared(log, kept_after_ms=0, end_offset=2) == []
    for present in (COMMITTED[2], emptied(COMMITTED[2]), corrupt(COMMITTED[2])):
        assert compared([log[0], present, log[1]], kept_after_ms=0) == []


def test_last_batch_of_a_producer_must_stay_unless_its_successor_was_cut_off() -> None:
    lost = [COMMITTED[0], *COMMITTED[2:]]
    assert compared([COMMITTED[0], plain(3)])[:1] == [(Damage.PRODUCER_LOST, 1)]
    assert compared([plain(0), plain(3)]) == [(Damage.PRODUCER_LOST, 1)]
    assert compared(lost) == []
    assert compared([plain(0), plain(3)], severity=Severity.ERROR) == []


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(COMMITTED, id="kept"),
        pytest.param([emptied(COMMITTED[1]), COMMITTED[3]], id="no records"),
        pytest.param(COMMITTED[:2], id="shorter log"),
        pytest.param([*COMMITTED[:2], corrupt(COMMITTED[2]), COMMITTED[3]], id="damaged"),
    ],
)
def test_marker_may_be_missing_for_other_reasons(log: Sequence[bytearray]) -> None:
    assert compared(log) == []


def test_offsets_beyond_the_common_end_and_expired_producers_are_not_compared() -> None:
    lost = [plain(0), plain(3)]
    assert compared(lost, end_offset=1) == []
    assert compared([COMMITTED[0], COMMITTED[1], COMMITTED[3]], end_offset=2) == []
    assert compared(lost, now_ms=FIRST_TIMESTAMP_MS + 1 + PRODUCER_EXPIRATION_MS) == []
