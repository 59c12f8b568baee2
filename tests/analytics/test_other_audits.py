"""Audits of replicas, retention, cost, producers, transactions: faults fail, sound files pass."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from kafkawire.records import ControlType, build_control_batch
from logcheck.finding import Check, Finding, Severity
from logcheck.rule import Rules
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.analytics.audited import NOW_MS, RULES, findings_of, summaries_of
from tests.analytics.log_model import START_MS, Bat, Log, Rec, compact, make_log, one_each
from tests.analytics.planter import Segment, edit, segments

HORIZON_MS = NOW_MS + RULES.delete_retention_ms


def names(found: list[Finding]) -> set[tuple[str, int | None]]:
    return {(each.damage, each.offset) for each in found}


# --- replicas


def differences(*roots: Path) -> list[Finding]:
    """Return the findings of the audit of replicas; `verify` has the same."""
    found = findings_of("replicas", *roots)
    results = verify_directories(roots, VerifyOptions(with_records=True, rules=RULES))
    verified = [each for result in results for each in result.reported]
    assert places(verified) == places(found)
    return found


def places(found: list[Finding]) -> list[tuple[str, int | None, Severity]]:
    """Return the places where replicas differ."""
    of_replicas = [each for each in found if each.check in (Check.REPLICAS, Check.PRESERVATION)]
    return [(each.damage, each.offset, each.severity) for each in of_replicas]


def test_equal_replicas_pass(tmp_path: Path) -> None:
    for replica in "abc":
        make_log().write(tmp_path / replica)
    assert differences(*(tmp_path / replica for replica in "abc")) == []


def test_lagging_replica_passes_below_its_watermark(tmp_path: Path) -> None:
    log = make_log()
    log.write(tmp_path / "a")
    shorter = replace(log, segments=[*log.segments[:3], (300, log.segments[3][1][:7])])
    shorter.write(tmp_path / "b")
    assert differences(tmp_path / "a", tmp_path / "b") == []


def one_byte(segment: Segment) -> None:
    segment.flip(7, 90, with_crc=True)


def an_epoch(segment: Segment) -> None:
    segment.patch(7, 12, struct.pack(">i", 3))


def a_batch_gone(segment: Segment) -> None:
    segment.reorder([n for n in range(20) if n != 7])


@pytest.mark.parametrize("plant", [one_byte, an_epoch, a_batch_gone])
def test_differing_replicas_are_reported(tmp_path: Path, plant: Callable[[Segment], None]) -> None:
    make_log().write(tmp_path / "a")
    other = make_log().write(tmp_path / "b")
    plant(segments(other)[1])
    found = differences(tmp_path / "a", tmp_path / "b")
    different = [each for each in found if each.check == "S4"]
    assert [(each.damage, each.offset) for each in different] == [("replica_differs", 135)]
    assert Path(different[0].file).is_relative_to(other)
    assert {each.damage for each in found} <= {"replica_differs", "offset_gap"}


def test_replicas_cleaned_differently_pass(tmp_path: Path) -> None:
    log = make_log()
    log.write(tmp_path / "a")
    compact(log, horizon_ms=HORIZON_MS).write(tmp_path / "b")
    compact(log, keep_tombstones=False).write(tmp_path / "c")
    assert differences(*(tmp_path / replica for replica in "abc")) == []


def test_key_lost_in_one_cleaned_replica_is_reported(tmp_path: Path) -> None:
    log = make_log()
    log.write(tmp_path / "a")
    cleaned = compact(log, horizon_ms=HORIZON_MS)
    base, batches = cleaned.segments[0]
    victim = batches[-1].records[-1]
    short = replace(batches[-1], records=batches[-1].records[:-1])
    log = replace(cleaned, segments=[(base, [*batches[:-1], short]), *cleaned.segments[1:]])
    log.write(tmp_path / "b")
    found = differences(tmp_path / "a", tmp_path / "b")
    assert names(found) == {("lost_key", victim.offset)}


def test_watermark_older_than_the_cleaning_of_another_replica_passes(
    tmp_path: Path,
) -> None:
    log = make_log()
    compact(log, horizon_ms=HORIZON_MS).write(tmp_path / "a")
    replace(log, high_watermark=150).write(tmp_path / "b")
    assert differences(tmp_path / "a", tmp_path / "b") == []
    assert differences(tmp_path / "b", tmp_path / "a") == []


@pytest.mark.parametrize("point", [50, 100, 299])
def test_cleaning_beyond_its_checkpoint_passes(tmp_path: Path, point: int) -> None:
    log = make_log()
    cleaned = compact(log, horizon_ms=HORIZON_MS)
    replace(cleaned, cleaner_point=point).write(tmp_path / "a")
    log.write(tmp_path / "b")
    for pair in ("ab", "ba"):
        found = differences(*(tmp_path / replica for replica in pair))
        assert {each.severity for each in found} <= {Severity.NOTE}


def test_cleaning_beyond_its_checkpoint_without_a_trace_passes(tmp_path: Path) -> None:
    log = make_log(400, 200, tombstone_every=401)
    # Keys repeat at 200..399 and supersede all earlier records. Only offsets below 300 are cleaned.
    replace(compact(log), cleaner_point=190).write(tmp_path / "a")
    replace(log, high_watermark=195).write(tmp_path / "b")
    assert differences(tmp_path / "a", tmp_path / "b") == []


@pytest.mark.parametrize("is_contradicted", [False, True])
def test_key_lost_under_an_old_watermark_and_cleaner_point_is_reported(
    tmp_path: Path, is_contradicted: bool
) -> None:
    log = make_log(400, 390)
    if is_contradicted:
        # The key of the lost record occurs again at 390: a cleaner that passed it had removed this.
        base, (again, *others) = log.segments[-1]
        record = replace(again.records[0], key=again.records[1].key)
        again = replace(again, records=(record, *again.records[1:]))
        log = replace(log, segments=[*log.segments[:-1], (base, [again, *others])])
    cleaned = compact(log, horizon_ms=HORIZON_MS)
    base, (first, *rest) = cleaned.segments[0]
    victim, *kept = first.records
    short = [replace(first, records=tuple(kept)), *rest]
    damaged = replace(cleaned, segments=[(base, short), *cleaned.segments[1:]], cleaner_point=150)
    damaged.write(tmp_path / "a")
    replace(log, high_watermark=200).write(tmp_path / "b")
    found = differences(tmp_path / "a", tmp_path / "b")
    found = [each for each in found if each.damage == "lost_key"]
    assert names(found) == {("lost_key", victim.offset)}
    severity = Severity.WARNING if is_contradicted else Severity.NOTE
    assert {each.severity for each in found} == {severity}


def test_a_key_deleted_beyond_the_end_of_another_replica_is_a_warning(tmp_path: Path) -> None:
    def batch(offset: int, key: bytes, value: bytes | None) -> Bat:
        return Bat(offset, offset, (Rec(offset, key, value, START_MS + offset),))

    old = [batch(0, b"k", b"v"), batch(1, b"other", b"v")]
    # The tombstone at 2 deleted k and was removed itself.
    cleaned = [old[1], batch(3, b"third", b"v")]
    Log(segments=[(0, cleaned), (4, [batch(4, b"last", b"v")])], cleaner_point=4).write(
        tmp_path / "a"
    )
    Log(segments=[(0, old)]).write(tmp_path / "b")
    found = differences(tmp_path / "a", tmp_path / "b")
    assert [(each.damage, each.offset, each.severity) for each in found] == [
        ("lost_key", 0, "warning")
    ]


def deleted_key(*offsets: int, again: int | None = None) -> Log:
    """Return a log of a deleted key with its records at `offsets` alone, and others."""
    records = one_each((0, b"k", b"v"), (1, b"k", None), (2, b"other", b"v"), (3, b"last", b"v"))
    later = [] if again is None else one_each((again, b"k", b"again"))
    kept = [each for each in records if each.first in {*offsets, 2}]
    return Log(segments=[(0, kept), (3, [records[3], *later])], high_watermark=3)


@pytest.mark.parametrize("again", [None, 4])
def test_a_deleted_key_that_came_back_in_a_replica_is_a_warning(
    tmp_path: Path, again: int | None
) -> None:
    """Only a replica that lagged for longer than tombstones are kept never sees the tombstone."""
    for name, offsets in (("a", (0, 1)), ("b", (0,)), ("c", (1,)), ("d", ())):
        deleted_key(*offsets, again=again).write(tmp_path / name)
    expected = [] if again else [("stale_value", 0, Severity.WARNING)]
    for pair in ("ab", "ba"):
        found = differences(*(tmp_path / replica for replica in pair))
        warned = [each for each in places(found) if each[2] is not Severity.NOTE]
        assert warned == expected
    # The other replicas have removed the value before the tombstone.
    for pair in ("ac", "ca", "cd", "dc", "ad", "da"):
        found = differences(*(tmp_path / replica for replica in pair))
        assert {each.severity for each in found} <= {Severity.NOTE}


# --- retention and cost


def test_retention_reports_the_segments_to_delete(tmp_path: Path) -> None:
    make_log().write(tmp_path)
    assert findings_of("retention", tmp_path) == []
    by_time = Rules(now_ms=NOW_MS, retention_ms=1000)
    assert names(findings_of("retention", tmp_path, rules=by_time)) == {
        ("kept_too_long", base) for base in (0, 100, 200)
    }
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    first = min(tmp_path.rglob("*.log")).stat().st_size
    by_size = Rules(now_ms=NOW_MS, retention_bytes=size - first)
    assert names(findings_of("retention", tmp_path, rules=by_size)) == {("kept_too_much", 0)}
    lenient = Rules(now_ms=NOW_MS, retention_bytes=size - first + 1)
    assert findings_of("retention", tmp_path, rules=lenient) == []


def test_cost_counts_the_bytes_that_compaction_would_reclaim(tmp_path: Path) -> None:
    make_log(400, 40).write(tmp_path)
    [summary] = summaries_of("cost", tmp_path)
    assert (summary["keys"], summary["keyed_records"], summary["duplicates"]) == (40, 400, 360)
    assert summary["records_per_key"][4] == 40
    assert summary["tombstones"] == 24
    assert 0 < summary["reclaimable_bytes"] < summary["bytes"]
    assert {hot["count"] for hot in summary["hot_keys"]} == {10}


# --- producers and transactions


def with_producers() -> Log:
    log = make_log(200, per_segment=20)
    return replace(
        log,
        segments=[
            (base, [numbered(batch, base + at * 5) for at, batch in enumerate(batches)])
            for base, batches in log.segments
        ],
    )


def numbered(batch: Bat, sequence: int) -> Bat:
    return replace(batch, producer_id=7, producer_epoch=0, sequence=sequence)


def snapshot(last_offset: int, last_sequence: int) -> bytes:
    newest_ms = START_MS + last_offset * 10
    entry = struct.pack(">qhiqiqiq", 7, 0, last_sequence, last_offset, 4, newest_ms, -1, -1)
    body = struct.pack(">i", 1) + entry
    return struct.pack(">hI", 1, crc32c(body)) + body


def too_many_entries() -> bytes:
    body = struct.pack(">i", 2) + snapshot(99, 99)[10:]
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_snapshot_that_agrees_with_the_log_passes(tmp_path: Path) -> None:
    directory = with_producers().write(tmp_path)
    (directory / "00000000000000000100.snapshot").write_bytes(snapshot(99, 99))
    (directory / "00000000000000000200.snapshot").write_bytes(snapshot(199, 199))
    assert findings_of("integrity", tmp_path) == []
    (directory / "00000000000000000200.snapshot").write_bytes(snapshot(199, 197))
    assert names(findings_of("integrity", tmp_path)) == {("snapshot_entry", 199)}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(snapshot(99, 98), "snapshot_entry", id="another sequence"),
        pytest.param(snapshot(94, 94), "snapshot_entry", id="an older batch"),
        pytest.param(snapshot(150, 150), "snapshot_entry", id="beyond its name"),
        pytest.param(snapshot(99, 99)[:-1], "bad_snapshot", id="cut"),
        pytest.param(snapshot(99, 99)[:4], "bad_snapshot", id="no header"),
        pytest.param(too_many_entries(), "bad_snapshot", id="a wrong count"),
        pytest.param(b"\0\x09" + snapshot(99, 99)[2:], "bad_snapshot", id="another version"),
        pytest.param(
            snapshot(99, 99)[:20] + b"\x55" + snapshot(99, 99)[21:], "bad_snapshot", id="bit"
        ),
    ],
)
def test_snapshot_that_contradicts_the_log_is_reported(
    tmp_path: Path, data: bytes, kind: str
) -> None:
    directory = with_producers().write(tmp_path)
    (directory / "00000000000000000100.snapshot").write_bytes(data)
    [found] = findings_of("integrity", tmp_path)
    assert (found.damage, Path(found.file).name) == (kind, "00000000000000000100.snapshot")


def test_a_live_producers_last_batch_must_stay(tmp_path: Path) -> None:
    raw = with_producers()
    last = raw.segments[0][1][-1]
    lone = replace(last, producer_id=8)
    raw.segments[0][1][-1] = lone
    raw.segments[1] = (
        100,
        [replace(each, sequence=each.sequence - 5) for each in raw.segments[1][1]],
    )
    raw.write(tmp_path / "raw")
    kept = compact(raw, horizon_ms=HORIZON_MS)
    ends = [batch.last for batch in kept.segments[0][1] if batch.producer_id == 8]
    assert ends == [lone.last], "the model must keep the batch, so that the test can remove it"
    kept.write(tmp_path / "kept")
    assert findings_of("compaction", tmp_path / "kept", against=tmp_path / "raw") == []
    empty = replace(lone, records=(), max_timestamp_ms=START_MS)
    rest = [batch for batch in kept.segments[0][1] if batch.producer_id != 8]
    for name, batches in (("empty", [*rest, empty]), ("gone", rest)):
        replace(kept, segments=[(0, batches), *kept.segments[1:]]).write(tmp_path / name)
    found = findings_of("compaction", tmp_path / "gone", against=tmp_path / "raw")
    assert ("producer_lost", lone.last) in names(found)
    found = findings_of("compaction", tmp_path / "empty", against=tmp_path / "raw")
    assert "producer_lost" not in {each.damage for each in found}


class TransactionalLog:
    """Data of producer 5 at 0..4 (aborted at 5) and 6..10 (committed at 11); active from 12 on."""

    def __init__(self, at: Path, *, end: bool = True) -> None:
        self.directory = at / "orders-0"
        self.directory.mkdir(parents=True)
        blocks = [data(0), marker(ControlType.ABORT, 5), data(6), marker(ControlType.COMMIT, 11)]
        first = self.directory / "00000000000000000000.log"
        first.write_bytes(b"".join(blocks if end else blocks[:3]))
        Segment(first).restore_indexes()
        active = self.directory / f"{12 if end else 11:020d}.log"
        active.touch()
        for kind in ("index", "timeindex"):
            active.with_suffix(f".{kind}").touch()
        self.index = first.with_suffix(".txnindex")
        self.index.write_bytes(struct.pack(">hqqqq", 0, 5, 0, 5, 6))


def data(first: int) -> bytes:
    records = tuple(
        Rec(offset, b"k%d" % offset, b"v", START_MS) for offset in range(first, first + 5)
    )
    return Bat(
        first,
        first + 4,
        records,
        0,
        producer_id=5,
        producer_epoch=0,
        # The marker at 5 has no sequence.
        sequence=first - first // 6,
        is_transactional=True,
    ).encode()


def marker(kind: ControlType, offset: int) -> bytes:
    return bytes(
        build_control_batch(
            kind,
            producer_id=5,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=START_MS,
            base_offset=offset,
            leader_epoch=0,
        )
    )


def test_transactions_in_order_pass(tmp_path: Path) -> None:
    TransactionalLog(tmp_path)
    assert findings_of("integrity", tmp_path) == []


def test_transaction_left_open_is_reported(tmp_path: Path) -> None:
    TransactionalLog(tmp_path, end=False)
    assert names(findings_of("integrity", tmp_path)) == {("hanging_transaction", 6)}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([], ("txnindex_missing", 5), id="an entry is missing"),
        pytest.param([(0, 5, 1, 5)], ("txnindex_range", 5), id="a wrong begin"),
        pytest.param([(0, 5, 0, 5), (0, 6, 0, 3)], ("txnindex_entry", 3), id="an entry too many"),
        pytest.param([(0, 5, 0, 5), (9, 5, 0, 5)], ("txnindex_entry", None), id="another version"),
        pytest.param(
            [(0, 5, 0, 5), (0, 5, 9, 5)], ("txnindex_entry", None), id="a range backwards"
        ),
    ],
)
def test_transaction_index_that_contradicts_the_log_is_reported(
    tmp_path: Path, entries: list[tuple[int, ...]], expected: tuple[str, int | None]
) -> None:
    log = TransactionalLog(tmp_path)
    log.index.write_bytes(b"".join(struct.pack(">hqqqq", *entry, 6) for entry in entries))
    assert names(findings_of("integrity", tmp_path)) == {expected}


@pytest.mark.parametrize(
    ("first", "blocks", "entries"),
    [
        pytest.param(0, [marker(ControlType.ABORT, 0)], [], id="an abort of nothing"),
        pytest.param(
            5,
            [data(5), marker(ControlType.ABORT, 10)],
            [(0, 5, 0, 10)],
            id="a transaction whose head was deleted",
        ),
        pytest.param(
            10,
            [marker(ControlType.ABORT, 10)],
            [(0, 5, 0, 10)],
            id="a transaction whose data were deleted",
        ),
    ],
)
def test_transaction_index_may_name_deleted_data_and_omit_empty_transactions(
    tmp_path: Path, first: int, blocks: list[bytes], entries: list[tuple[int, ...]]
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / f"{first:020d}.log"
    log.write_bytes(b"".join(blocks))
    Segment(log).restore_indexes()
    rows = b"".join(struct.pack(">hqqqq", *entry, 11) for entry in entries)
    log.with_suffix(".txnindex").write_bytes(rows)
    assert findings_of("integrity", tmp_path) == []


def test_partial_transaction_index_entry_is_reported(tmp_path: Path) -> None:
    edit(TransactionalLog(tmp_path).index, lambda rows: rows.extend(b"\0\0\0"))
    assert names(findings_of("integrity", tmp_path)) == {("txnindex_cut", None)}


def cleaned_to(root: Path, offset: int) -> None:
    (root / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


def test_aborted_data_that_survives_a_cleaning_is_reported(tmp_path: Path) -> None:
    TransactionalLog(tmp_path)
    cleaned_to(tmp_path, 12)
    assert names(findings_of("compaction", tmp_path)) == {("aborted_data", 0)}


def test_marker_deduplicated_like_a_key_is_reported(tmp_path: Path) -> None:
    TransactionalLog(tmp_path / "raw")
    log = TransactionalLog(tmp_path / "clean")
    cleaned_to(tmp_path / "clean", 12)
    first = log.directory / "00000000000000000000.log"
    # The aborted data is correctly gone. Of the two markers the cleaner kept the first "key".
    first.write_bytes(marker(ControlType.ABORT, 5) + data(6))
    Segment(first).restore_indexes()
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert names(found) == {("marker_lost", 11), ("hanging_transaction", 6)}


def test_task_without_segments_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    assert findings_of("integrity", tmp_path) == []
