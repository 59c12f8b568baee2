"""Producers and transactions: every planted fault is found by the audit and by `verify --deep`."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from crc32c import crc32c

from logcheck.finding import Severity
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import START_MS, Bat, Rec, add_checkpoint, write_segment
from tests.analytics.planter import Segment

ABORT, COMMIT = 0, 1
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
DAY_MS = 24 * 60 * 60 * 1000
MAX_SEQUENCE = 2**31 - 1


def data(first: int, producer: int, sequence: int, *, epoch: int = 0, count: int = 5) -> Bat:
    """Return a batch of the transactional producers 5 and 6, or of the idempotent 7."""
    last = first + count - 1
    records = tuple(
        Rec(offset, b"k%d" % offset, b"v", START_MS + offset) for offset in range(first, last + 1)
    )
    return Bat(
        first,
        last,
        records,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        is_transactional=producer != 7,
    )


def marker(
    offset: int, producer: int, kind: int, *, epoch: int = 0, coordinator_epoch: int = 3
) -> Bat:
    value = struct.pack(">hi", 0, coordinator_epoch)
    record = Rec(offset, struct.pack(">hh", 0, kind), value, START_MS + offset)
    return Bat(
        offset,
        offset,
        (record,),
        producer_id=producer,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )


@dataclass
class Model:
    """A healthy partition of two segments, with all files of its producers."""

    batches: list[Bat] = field(
        default_factory=lambda: [
            data(0, 5, 0),
            data(5, 6, 0),
            marker(10, 5, ABORT),
            data(11, 7, 0),
            marker(16, 6, ABORT),
            data(17, 7, 5, count=3),
            data(20, 7, 8),
            data(25, 5, 5),
            marker(30, 5, COMMIT),
            data(31, 7, 13),
        ]
    )
    entries: list[tuple[int, ...]] = field(
        default_factory=lambda: [(0, 5, 0, 10, 5), (0, 6, 5, 16, 17)]
    )
    producers: list[tuple[int, ...]] = field(
        default_factory=lambda: [
            (5, 0, 4, 4, 4, START_MS + 10, 3, -1),
            (6, 0, 4, 9, 4, START_MS + 16, 3, -1),
            (7, 0, 7, 19, 2, START_MS + 19, -1, -1),
        ]
    )
    active_entries: list[tuple[int, ...]] = field(default_factory=list)
    cleaner_point: int | None = None
    log_start: int = 0

    def write(self, root: Path) -> Path:
        directory = root / "orders-0"
        directory.mkdir(parents=True)
        sealed = [each for each in self.batches if each.first < 20]
        if self.log_start < 20:
            write_segment(directory, 0, sealed, is_active=False)
            write_entries(directory / "00000000000000000000.txnindex", self.entries)
        active = [each for each in self.batches if each.first >= 20]
        write_segment(directory, 20, active, is_active=True)
        if self.active_entries:
            write_entries(directory / "00000000000000000020.txnindex", self.active_entries)
        body = struct.pack(">i", len(self.producers)) + b"".join(
            struct.pack(">qhiqiqiq", *each) for each in self.producers
        )
        snapshot = struct.pack(">hI", 1, crc32c(body)) + body
        (directory / "00000000000000000020.snapshot").write_bytes(snapshot)
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        for name, value in (
            ("cleaner-offset-checkpoint", self.cleaner_point),
            ("replication-offset-checkpoint", 36),
            ("recovery-point-offset-checkpoint", 20),
            ("log-start-offset-checkpoint", self.log_start),
        ):
            if value is not None:
                add_checkpoint(root / name, "orders", 0, value)
        return directory

    def put(self, number: int, *batches: Bat) -> None:
        self.batches[number : number + 1] = batches

    def change_producer(self, number: int, column: int, value: int) -> None:
        row = list(self.producers[number])
        row[column] = value
        self.producers[number] = tuple(row)


def write_entries(path: Path, entries: list[tuple[int, ...]]) -> None:
    path.write_bytes(b"".join(struct.pack(">hqqqq", *each) for each in entries))


def damages(root: Path) -> set[tuple[str, int | None, str]]:
    """Return the audit's findings; `verify --deep` must have the same."""
    audited = {
        (str(each.damage), each.offset, str(each.severity))
        for each in findings_of("integrity", root)
        if each.severity is not Severity.NOTE
    }
    options = VerifyOptions(with_records=True, rules=RULES)
    verified = {
        (str(each.damage), each.offset, str(each.severity))
        for result in verify_directories([root], options)
        for each in result.findings
    }
    assert verified == audited
    return audited


def entry(slot: int, *row: int) -> Callable[[Model], None]:
    return lambda model: model.entries.__setitem__(slot, row)


def snapshot(number: int, column: int, value: int) -> Callable[[Model], None]:
    return lambda model: model.change_producer(number, column, value)


def batch(number: int, *batches: Bat) -> Callable[[Model], None]:
    return lambda model: model.put(number, *batches)


FAULTS: dict[str, tuple[Callable[[Model], None], tuple[str, int | None]]] = {
    "a last stable offset too high": (entry(0, 0, 5, 0, 10, 6), ("txnindex_stable", 10)),
    "a last stable offset beyond every transaction": (
        entry(1, 0, 6, 5, 16, 1000),
        ("txnindex_stable", 16),
    ),
    "a last stable offset too low": (entry(1, 0, 6, 5, 16, 0), ("txnindex_stable", 16)),
    "a transaction index entry twice": (
        lambda model: model.entries.insert(1, model.entries[0]),
        ("txnindex_entry", 10),
    ),
    "a transaction index entry in the file of another segment": (
        lambda model: model.active_entries.append((0, 6, 5, 16, 17)),
        ("txnindex_entry", 16),
    ),
    "a transaction index entry that begins at a batch of another producer": (
        entry(1, 0, 6, 0, 16, 17),
        ("txnindex_range", 16),
    ),
    "a hole in the sequences of a producer": (
        batch(9, data(31, 7, 14)),
        ("sequence_broken", 31),
    ),
    "a batch appended twice": (batch(9, data(31, 7, 8)), ("sequence_broken", 31)),
    "a new producer epoch that begins beyond sequence 0": (
        batch(9, data(31, 7, 13, epoch=1)),
        ("sequence_broken", 31),
    ),
    "a data batch without a sequence": (batch(9, data(31, 7, -1)), ("sequence_broken", 31)),
    "a marker of an older producer epoch": (
        lambda model: model.batches.__setitem__(
            slice(7, 9), [data(25, 5, 0, epoch=2), marker(30, 5, COMMIT, epoch=1)]
        ),
        ("producer_epoch_back", 30),
    ),
    "a marker of an older coordinator epoch": (
        batch(8, marker(30, 5, COMMIT, coordinator_epoch=2)),
        ("producer_epoch_back", 30),
    ),
    "a marker of an unknown type": (batch(8, marker(30, 5, 7)), ("bad_marker", 30)),
    "a plain batch in an open transaction": (
        lambda model: model.batches.__setitem__(
            slice(8, 10),
            [
                replace(data(30, 5, 10, count=1), is_transactional=False),
                data(31, 7, 13),
                marker(36, 5, COMMIT),
            ],
        ),
        ("plain_in_transaction", 30),
    ),
    "a producer missing in a snapshot": (
        lambda model: model.producers.remove(model.producers[1]),
        ("snapshot_producer", 20),
    ),
    "a snapshot with a producer that never wrote": (
        lambda model: model.producers.append((8, 0, -1, -1, 0, START_MS, 0, -1)),
        ("snapshot_producer", -1),
    ),
    "a snapshot with another offset delta": (snapshot(2, 4, 4), ("snapshot_entry", 19)),
    "a snapshot with another timestamp": (snapshot(2, 5, START_MS), ("snapshot_entry", 19)),
    "a snapshot with a higher producer epoch": (snapshot(2, 1, 1), ("snapshot_entry", 19)),
    "a snapshot with another coordinator epoch": (snapshot(0, 6, 9), ("snapshot_entry", 4)),
    "a snapshot with a transaction that is not open": (snapshot(0, 7, 0), ("snapshot_entry", 4)),
    "a snapshot without a producer's last batch": (snapshot(2, 3, -1), ("snapshot_entry", -1)),
}


def test_the_healthy_model_is_clean(tmp_path: Path) -> None:
    Model().write(tmp_path)
    assert damages(tmp_path) == set()


@pytest.mark.parametrize(("plant", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_audit_and_verify_report_exactly_the_planted_fault(
    tmp_path: Path, plant: Callable[[Model], None], expected: tuple[str, int | None]
) -> None:
    model = Model()
    plant(model)
    model.write(tmp_path)
    assert damages(tmp_path) == {(*expected, "error")}


def test_the_table_in_the_docs_lists_every_fault() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audits.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert set(FAULTS) | set(ATTRIBUTES) | set(COMPARED) <= rows


@pytest.mark.parametrize("plant", [plant for plant, _ in FAULTS.values()], ids=FAULTS.keys())
@pytest.mark.parametrize("shard_count", [2, 4])
def test_exactly_one_shard_finds_each_fault(
    tmp_path: Path, plant: Callable[[Model], None], shard_count: int
) -> None:
    model = Model()
    model.write(tmp_path / "reference")
    plant(model)
    model.write(tmp_path / "log")
    log, reference = tmp_path / "log", tmp_path / "reference"
    whole = findings_of("compaction", log, against=reference)
    assert whole
    shards = findings_of("compaction", log, against=reference, shard_count=shard_count)
    assert sorted(map(str, shards)) == sorted(map(str, whole))


UNUSED, CONTROL, TRANSACTIONAL, HORIZON = 0x80, 0x20, 0x10, 0x40
ATTRIBUTES: dict[str, tuple[int, Severity]] = {
    "an unused attribute bit (a warning)": (UNUSED, Severity.WARNING),
    "the control bit on a batch without a producer": (CONTROL, Severity.ERROR),
    "the transactional bit on a batch without a producer (a warning)": (
        TRANSACTIONAL,
        Severity.WARNING,
    ),
}


def attributes_set(root: Path, bits: int) -> None:
    model = Model()
    plain = Bat(36, 36, (Rec(36, b"k", b"v", START_MS + 36),))
    model.batches.append(plain)
    segment = Segment(model.write(root) / "00000000000000000020.log")
    segment.patch(len(segment.batches) - 1, 21, struct.pack(">h", bits), with_crc=True)


@pytest.mark.parametrize(("bits", "severity"), ATTRIBUTES.values(), ids=ATTRIBUTES.keys())
def test_attributes_that_no_broker_writes_are_reported(
    tmp_path: Path, bits: int, severity: Severity
) -> None:
    attributes_set(tmp_path, bits)
    assert damages(tmp_path) == {("bad_attributes", 36, str(severity))}


def test_delete_horizon_is_reported_only_where_nothing_is_compacted(tmp_path: Path) -> None:
    model = Model()
    model.batches.append(
        Bat(36, 36, (Rec(36, b"k", None, START_MS + 36),), horizon_ms=START_MS + 36)
    )
    model.write(tmp_path)
    rules = replace(RULES, cleanup_policy="delete")
    found = findings_of("integrity", tmp_path, rules=rules)
    assert [(each.damage, each.offset) for each in found] == [("bad_attributes", 36)]
    assert damages(tmp_path) == set()


# --- healthy histories


def test_sequences_wrap_around(tmp_path: Path) -> None:
    model = Model()
    model.put(6, data(20, 8, MAX_SEQUENCE - 2))
    model.batches[6] = replace(model.batches[6], is_transactional=False)
    model.put(9, replace(data(31, 8, 2), is_transactional=False))
    model.write(tmp_path)
    assert damages(tmp_path) == set()


def test_new_epochs_begin_at_sequence_0(tmp_path: Path) -> None:
    model = Model()
    model.put(8, marker(30, 5, COMMIT, epoch=1))
    model.put(9, data(31, 7, 0, epoch=1), data(36, 5, 0, epoch=1), marker(41, 5, COMMIT, epoch=1))
    model.write(tmp_path)
    assert damages(tmp_path) == set()


def test_forgotten_producer_may_begin_anywhere(tmp_path: Path) -> None:
    model = Model()
    late = data(31, 7, 77)
    days_ms = START_MS + 2 * DAY_MS
    records = tuple(replace(each, timestamp_ms=days_ms) for each in late.records)
    model.put(9, replace(late, records=records))
    model.write(tmp_path)
    rules = replace(RULES, now_ms=START_MS + 3 * DAY_MS)
    assert findings_of("integrity", tmp_path, rules=rules) == []


def test_expired_producer_may_be_missing_in_a_snapshot(tmp_path: Path) -> None:
    model = Model()
    del model.producers[2]
    model.write(tmp_path)
    rules = replace(RULES, now_ms=NOW_MS + DAY_MS)
    assert findings_of("integrity", tmp_path, rules=rules) == []


@pytest.mark.parametrize("log_start", [3, 8, 13])
def test_transactions_may_begin_before_the_log_start(tmp_path: Path, log_start: int) -> None:
    model = Model(log_start=log_start)
    model.batches = [each for each in model.batches if each.last >= log_start]
    model.write(tmp_path)
    assert damages(tmp_path) == set()


def test_aborted_data_below_the_cleaners_point_may_be_gone(tmp_path: Path) -> None:
    model = Model(cleaner_point=20)
    del model.batches[:2]
    model.write(tmp_path)
    assert damages(tmp_path) == set()


def test_start_of_a_transaction_may_be_cleaned_before_its_abort(tmp_path: Path) -> None:
    model = Model(cleaner_point=20)
    model.batches = [data(11, 7, 0), data(20, 6, 5), marker(25, 6, ABORT)]
    model.entries, model.active_entries = [], [(0, 6, 5, 25, 26)]
    model.write(tmp_path)
    found = findings_of("integrity", tmp_path)
    assert [each.damage for each in found if each.check == "S13"] == []


def test_last_stable_offset_may_be_the_start_of_a_later_transaction(tmp_path: Path) -> None:
    # A follower appends the batches up to 30 at once, and ends the transactions afterwards.
    model = Model()
    model.entries[1] = (0, 6, 5, 16, 25)
    model.write(tmp_path)
    assert damages(tmp_path) == set()


def test_entry_of_the_last_marker_may_be_missing_after_a_kill(tmp_path: Path) -> None:
    model = Model()
    model.put(8, marker(30, 5, ABORT))
    model.write(tmp_path)
    notes = [
        (each.damage, each.offset)
        for each in findings_of("integrity", tmp_path)
        if each.severity is Severity.NOTE
    ]
    assert damages(tmp_path) == set()
    assert ("txnindex_missing", 30) in notes


def test_age_of_an_open_transaction_is_certain_only_by_a_later_marker(tmp_path: Path) -> None:
    model = Model()
    del model.batches[8]
    model.write(tmp_path / "unknown")
    notes = [
        each.damage
        for each in findings_of("integrity", tmp_path / "unknown")
        if each.severity is Severity.NOTE
    ]
    assert "hanging_transaction" in notes
    model.batches.append(marker(36, 6, COMMIT))
    model.write(tmp_path / "certain")
    assert ("hanging_transaction", 25, "error") in damages(tmp_path / "certain")


# --- with a reference


def flipped(each: Bat) -> Bat:
    return replace(marker(30, 5, ABORT), first=each.first, last=each.last)


COMPARED: dict[str, tuple[int, Callable[[Bat], Bat], str]] = {
    "a marker flipped by a cleaning": (8, flipped, "marker_differs"),
    "a marker with another coordinator epoch after a cleaning": (
        8,
        lambda _: marker(30, 5, COMMIT, coordinator_epoch=4),
        "marker_differs",
    ),
    "a batch with another producer after a cleaning": (
        3,
        lambda each: replace(each, producer_id=9),
        "producer_differs",
    ),
    "a batch that lost its producer in a cleaning": (
        3,
        lambda each: replace(each, producer_id=-1, producer_epoch=-1, sequence=-1),
        "producer_differs",
    ),
}


@pytest.mark.parametrize(("number", "change", "damage"), COMPARED.values(), ids=COMPARED.keys())
def test_producers_of_a_cleaned_log_are_compared(
    tmp_path: Path, number: int, change: Callable[[Bat], Bat], damage: str
) -> None:
    def model() -> Model:
        made = Model()
        made.batches.append(data(36, 7, 18))
        return made

    def write(made: Model, root: Path) -> None:
        directory = made.write(root)
        tail = Bat(41, 41, (Rec(41, b"k", b"v", START_MS + 41),))
        write_segment(directory, 41, [tail], is_active=True)
        active = Segment(directory / "00000000000000000020.log")
        active.restore_indexes()

    write(model(), tmp_path / "raw")
    made = model()
    offset = made.batches[number].first
    made.put(number, change(made.batches[number]))
    made.cleaner_point = 41
    del made.batches[:2]
    made.entries.clear()
    write(made, tmp_path / "clean")
    for found in (
        findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw"),
        findings_of("replicas", tmp_path / "raw", tmp_path / "clean"),
    ):
        kinds = {(each.damage, each.offset) for each in found}
        assert (damage, offset) in kinds
