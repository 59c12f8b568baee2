"""Snapshots are compared with the state that the log gives, as far as it is known."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kafkawire.records import ControlType
from logcheck.finding import Damage, Severity
from logcheck.history import History
from logcheck.log_scan import LogScan
from logcheck.producer_check import ProducerCheck
from logcheck.producer_replay import PRODUCER_EXPIRATION_MS, ProducerReplay
from logcheck.sequence_check import SequenceCheck
from logcheck.snapshot_check import SnapshotCheck
from tests.unit.logcheck.partition_bytes import FIRST_TIMESTAMP_MS, Reported
from tests.unit.logcheck.producer_bytes import (
    COORDINATOR_EPOCH,
    corrupt,
    data,
    emptied,
    marker,
    plain,
    scan_of,
    snapshot_of,
)

NOT_COMPACTED = History(cleanup_policy="delete")
NO_OFFSET = -1


def row(
    last_offset: int, sequence: int = 0, *, producer_id: int = 7, coordinator_epoch: int = -1
) -> tuple[int, ...]:
    """Return the entry of an idempotent producer after its batch of one record at `last_offset`."""
    timestamp_ms = FIRST_TIMESTAMP_MS + last_offset
    return (producer_id, 0, sequence, last_offset, 0, timestamp_ms, coordinator_epoch, NO_OFFSET)


def idempotent(offset: int, sequence: int = 0, producer_id: int = 7) -> bytearray:
    return data(offset, sequence, producer_id=producer_id, is_transactional=False)


@dataclass
class Partition:
    """A log with snapshots by their offsets."""

    batches: Sequence[bytearray]
    snapshots: dict[int, bytes]
    first_offset: int = 0
    history: History = NOT_COMPACTED

    def findings(self) -> list[tuple[Damage, int | None, Severity, str]]:
        reported = Reported()
        scan = scan_of(self.batches, self.first_offset, self.history)
        check = self._check(scan, reported)
        scan.run([check])
        check.conclude(scan)
        return [(each.damage, each.offset, each.severity, each.text) for each in reported.findings]

    def _check(self, scan: LogScan, reported: Reported) -> ProducerCheck:
        now_ms = FIRST_TIMESTAMP_MS
        files = {f"{offset}.snapshot": each for offset, each in self.snapshots.items()}
        return ProducerCheck(
            ProducerReplay(scan.offsets, now_ms),
            SequenceCheck("t", 0, scan.offsets, now_ms, reported),
            SnapshotCheck(self.first_offset, self.history, scan.offsets, now_ms, reported),
            [(offset, f"{offset}.snapshot") for offset in self.snapshots],
            files.__getitem__,
        )


@pytest.mark.parametrize(
    ("cut_bytes", "history", "severity"),
    [
        pytest.param(0, History(), Severity.NOTE, id="empty"),
        pytest.param(12, History(), Severity.NOTE, id="cut short"),
        pytest.param(0, History(was_stopped=True), Severity.ERROR, id="after a clean stop"),
        pytest.param(0, History(recovered_from=2), Severity.ERROR, id="before the recovery"),
    ],
)
def test_a_death_leaves_an_unfinished_snapshot_only_where_a_start_recovers(
    cut_bytes: int, history: History, severity: Severity
) -> None:
    cut = snapshot_of(row(0))[:cut_bytes]
    found = Partition([idempotent(0)], {1: cut}, history=history).findings()
    assert [(damage, each) for damage, _, each, _ in found] == [(Damage.BAD_SNAPSHOT, severity)]


def test_a_wrong_checksum_is_an_error_anywhere() -> None:
    changed = bytearray(snapshot_of(row(0)))
    changed[-1] ^= 1
    found = Partition([idempotent(0)], {1: bytes(changed)}, history=History()).findings()
    assert [(each[0], each[2]) for each in found] == [(Damage.BAD_SNAPSHOT, Severity.ERROR)]


def test_snapshot_at_the_first_offset_is_the_state_before_the_log() -> None:
    before, after = row(999, 4), row(1_000, 0, producer_id=8)
    log = [idempotent(1_000, 0, producer_id=8)]
    snapshots = {1_000: snapshot_of(before), 1_001: snapshot_of(before, after)}
    assert Partition(log, snapshots, 1_000).findings() == []
    snapshots[1_001] = snapshot_of(row(999, 5), after)
    assert Partition(log, snapshots, 1_000).findings() == [
        (
            Damage.SNAPSHOT_ENTRY,
            999,
            Severity.ERROR,
            "expected last sequence 4 of producer 7, found 5",
        )
    ]


def test_batches_continue_the_snapshot_at_the_first_offset() -> None:
    snapshots = {1_000: snapshot_of(row(999, 4))}
    assert Partition([idempotent(1_000, 5)], snapshots, 1_000).findings() == []
    ((damage, offset, *_),) = Partition([idempotent(1_000, 6)], snapshots, 1_000).findings()
    assert (damage, offset) == (Damage.SEQUENCE_BROKEN, 1_000)


def test_first_snapshot_may_lack_a_producer_that_had_expired_when_it_was_written() -> None:
    snapshots = {1_000: snapshot_of(), 1_001: snapshot_of(row(999, producer_id=9), row(1_000))}
    ((damage, offset, severity, _),) = Partition([idempotent(1_000)], snapshots, 1_000).findings()
    assert (damage, offset, severity) == (Damage.SNAPSHOT_PRODUCER, 999, Severity.WARNING)


@pytest.mark.parametrize("snapshot_offset", [900, 1_000, 1_001])
def test_entry_beyond_the_snapshots_own_offset_is_reported(snapshot_offset: int) -> None:
    snapshots = {snapshot_offset: snapshot_of(row(5_000))}
    text = f"expected an offset below {snapshot_offset}, by the file's name, found 5000"
    assert Partition([plain(1_000), plain(1_001)], snapshots, 1_000).findings() == [
        (Damage.SNAPSHOT_ENTRY, snapshot_offset, Severity.ERROR, text)
    ]


def test_damaged_snapshot_is_reported_and_not_compared() -> None:
    snapshots = {1: snapshot_of(row(0, 77))[:-1]}
    ((damage, *_),) = Partition([idempotent(0)], snapshots).findings()
    assert damage is Damage.BAD_SNAPSHOT


UNKNOWN = {2: snapshot_of(row(0), row(1, producer_id=9))}


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param(plain(1), "a batch of another end or producer", id="another batch"),
        pytest.param(None, "none", id="no batch"),
    ],
)
def test_entry_without_its_batch_is_reported(second: bytearray | None, found: str) -> None:
    log = [idempotent(0), *([] if second is None else [second]), plain(2)]
    expected = "a batch of producer 9 that ends at 1"
    text = f"expected {expected}, found {found}"
    finding = (Damage.SNAPSHOT_ENTRY, 1, Severity.ERROR, text)
    assert Partition(log, UNKNOWN).findings() == [finding]


@pytest.mark.parametrize(
    ("log", "history"),
    [
        pytest.param(
            [idempotent(0), corrupt(idempotent(1, producer_id=9)), idempotent(2, 1)],
            NOT_COMPACTED,
            id="damaged",
        ),
        pytest.param([idempotent(0), idempotent(2, 1)], History(), id="may be cleaned away"),
    ],
)
def test_entry_whose_batch_is_not_readable_is_not_judged(
    log: list[bytearray], history: History
) -> None:
    assert Partition(log, UNKNOWN, history=history).findings() == []


def test_broker_may_have_forgotten_the_batches_before_a_late_marker() -> None:
    late_ms = FIRST_TIMESTAMP_MS + PRODUCER_EXPIRATION_MS
    log = [idempotent(0), marker(1, ControlType.COMMIT, timestamp_ms=late_ms)]
    cleared = (7, 0, -1, NO_OFFSET, 0, late_ms, COORDINATOR_EPOCH, NO_OFFSET)
    assert Partition(log, {2: snapshot_of(cleared)}).findings() == []
    log[1] = marker(1, ControlType.COMMIT)
    ((damage, *_),) = Partition(log, {2: snapshot_of(cleared)}).findings()
    assert damage is Damage.SNAPSHOT_ENTRY


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param((), id="not known"),
        pytest.param(((7, 0, -1, NO_OFFSET, 0, 5, COORDINATOR_EPOCH, NO_OFFSET),), id="known"),
    ],
)
def test_broker_knows_an_emptied_marker_only_if_it_appended_it(
    entries: tuple[tuple[int, ...], ...],
) -> None:
    log = [emptied(marker(0)), idempotent(1, producer_id=8)]
    snapshots = {1: snapshot_of(*entries), 2: snapshot_of(*entries, row(1, producer_id=8))}
    assert Partition(log, snapshots).findings() == []
    snapshots[2] = snapshot_of(row(1, 5, producer_id=8))
    ((damage, *_),) = Partition(log, snapshots).findings()
    assert damage is Damage.SNAPSHOT_ENTRY


def test_emptied_marker_hides_the_coordinator_epoch_alone() -> None:
    log = [idempotent(0), emptied(marker(1)), plain(2)]
    before, after = row(0), row(0, coordinator_epoch=COORDINATOR_EPOCH)
    for each in (before, after):
        assert Partition(log, {2: snapshot_of(each)}).findings() == []
    ((damage, *_),) = Partition(log, {2: snapshot_of(row(0, 5))}).findings()
    assert damage is Damage.SNAPSHOT_ENTRY
