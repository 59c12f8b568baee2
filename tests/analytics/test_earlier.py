"""Comparison of a log with its own snapshot, or with a producer's ledger."""

import base64
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from analytics.errors import AuditError
from analytics.plan import Audit
from analytics.run import Request, run_audit, snapshot_logs
from analytics.snapshot import convert_ledger, open_snapshot, read_snapshot
from analytics.task import AuditTask
from logcheck.finding import Severity
from logcheck.rule import DAY_MS, Rules
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.log_model import Bat, Log, compact, make_log, one_each
from tests.analytics.planter import Segment

HORIZON_MS = NOW_MS + RULES.delete_retention_ms
LIMIT = 10_000


def log_of(at: Path, log: Log) -> Path:
    log.write(at)
    return at


def rules_at(snapshot: Path, later_ms: int = 0) -> Rules:
    """Return the rules with a clock `later_ms` after the snapshot."""
    taken = read_snapshot(str(snapshot), "orders", 0)
    assert taken is not None
    return replace(RULES, now_ms=taken.taken_ms + later_ms, delete_retention_ms=DAY_MS)


def test_a_log_passes_against_its_own_snapshot_and_after_compaction(tmp_path: Path) -> None:
    raw = make_log()
    file = tmp_path / "keys.parquet"
    assert snapshot_logs([str(log_of(tmp_path / "raw", raw))], file, LIMIT) == 40
    open_snapshot(str(file), 100)
    rules = rules_at(file)
    log_of(tmp_path / "clean", compact(raw, horizon_ms=HORIZON_MS))
    for name in ("raw", "clean"):
        found = findings_of("compaction", tmp_path / name, rules=rules, snapshot=str(file))
        assert [each for each in found if each.check == "S9"] == []


def test_key_lost_since_the_snapshot_is_reported(tmp_path: Path) -> None:
    raw = make_log(400, 400)
    file = tmp_path / "keys.parquet"
    snapshot_logs([str(log_of(tmp_path / "raw", raw))], file, LIMIT)
    log, _ = COMPACTION["a lost key"](raw, compact(raw, horizon_ms=HORIZON_MS))
    log_of(tmp_path / "clean", log)
    here = {record.offset for batch in log.batches for record in batch.records}
    [lost] = set(range(400)) - here
    for later_ms, severity in ((1000, Severity.ERROR), (2 * DAY_MS, Severity.WARNING)):
        rules = rules_at(file, later_ms)
        found = findings_of("compaction", tmp_path / "clean", rules=rules, snapshot=str(file))
        keys = [each for each in found if each.damage == "lost_key"]
        assert [(each.offset, each.severity) for each in keys] == [(lost, severity)]


def test_newer_records_excuse_missing_older_ones(tmp_path: Path) -> None:
    log = make_log(400, 20)
    early = replace(log, segments=log.segments[:2])
    file = tmp_path / "keys.parquet"
    snapshot_logs([str(log_of(tmp_path / "early", early))], file, LIMIT)
    log_of(tmp_path / "late", compact(log, horizon_ms=HORIZON_MS))
    rules = rules_at(file)
    found = findings_of("compaction", tmp_path / "late", rules=rules, snapshot=str(file))
    assert [each for each in found if each.check == "S9"] == []


@pytest.mark.parametrize("is_back", [False, True])
def test_a_key_that_was_deleted_at_the_snapshot_and_came_back_is_a_warning(
    tmp_path: Path, is_back: bool
) -> None:
    old, deleted, other = one_each((0, b"k", b"v"), (1, b"k", None), (2, b"other", b"v"))
    file = tmp_path / "keys.parquet"
    raw = log_of(tmp_path / "raw", Log(segments=[(0, [old, deleted]), (2, [other])]))
    snapshot_logs([str(raw)], file, LIMIT)
    kept = [old] if is_back else []
    log_of(tmp_path / "clean", Log(segments=[(0, kept), (2, [other])]))
    rules = rules_at(file, 2 * DAY_MS)
    found = findings_of("compaction", tmp_path / "clean", rules=rules, snapshot=str(file))
    keys = [(each.damage, each.offset, each.severity) for each in found if each.check == "S9"]
    assert keys == ([("stale_value", 0, Severity.WARNING)] if is_back else [])


def test_deleted_keys_that_came_back_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    keys = [b"key %d" % number for number in range(7)]
    old = one_each(*((number, key, b"v") for number, key in enumerate(keys)))
    deleted = one_each(*((number, key, None) for number, key in enumerate(keys, start=7)))
    [other] = one_each((14, b"other", b"v"))
    file = tmp_path / "keys.parquet"
    raw = log_of(tmp_path / "raw", Log(segments=[(0, [*old, *deleted]), (14, [other])]))
    snapshot_logs([str(raw)], file, LIMIT)
    log_of(tmp_path / "clean", Log(segments=[(0, old), (14, [other])]))
    rules = replace(rules_at(file, 2 * DAY_MS), finding_limit=5)
    found = findings_of("compaction", tmp_path / "clean", rules=rules, snapshot=str(file))
    *listed, more = [each for each in found if each.check == "S9"]
    assert [each.offset for each in listed] == list(range(5))
    assert (more.damage, more.offset, more.more) == ("stale_value", None, 1)
    assert {each.severity for each in (*listed, more)} == {Severity.WARNING}


ABORT, COMMIT = 0, 1


def transaction(key: bytes, producer_id: int, offset: int, kind: int | None) -> list[Bat]:
    """Return a record, and the marker behind it unless the transaction is open."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
    data = one_each((offset, key, b"in a transaction"), sequence=0, **fields)
    if kind is None:
        return data
    marker = (offset + 1, bytes([0, 0, 0, kind]), bytes(6))
    return [*data, *one_each(marker, is_control=True, **fields)]


@pytest.mark.parametrize("is_aborted", [False, True])
def test_an_aborted_record_does_not_supersede_one_that_is_lost_since_the_snapshot(
    tmp_path: Path, is_aborted: bool
) -> None:
    [old], [other] = one_each((0, b"k", b"v")), one_each((1, b"other", b"v"))
    file = tmp_path / "keys.parquet"
    snapshot_logs([str(log_of(tmp_path / "raw", Log(segments=[(0, [old, other])])))], file, LIMIT)
    later = transaction(b"k", 7, 2, ABORT if is_aborted else COMMIT)
    log_of(tmp_path / "later", Log(segments=[(0, [other, *later])]))
    rules = rules_at(file)
    found = findings_of("compaction", tmp_path / "later", rules=rules, snapshot=str(file))
    keys = [(each.damage, each.offset) for each in found if each.check == "S9"]
    assert keys == ([("lost_key", 0)] if is_aborted else [])


def uncommitted_log(how: str) -> Log:
    """Return a log of which only the records at 0 and 1 are certainly committed."""
    batches = one_each((0, b"k", b"v"), (1, b"other", b"v"))
    kind = {"aborted": ABORT, "open": None}.get(how, COMMIT)
    batches += transaction(b"k", 7, 2, kind)
    batches += one_each((batches[-1].last + 1, b"last", b"v"))
    return Log(segments=[(0, batches)], high_watermark=2 if how == "not replicated" else None)


@pytest.mark.parametrize("how", ["aborted", "open", "not replicated"])
def test_a_snapshot_has_only_committed_records(tmp_path: Path, how: str) -> None:
    file = tmp_path / "keys.parquet"
    snapshot_logs([str(log_of(tmp_path / "log", uncommitted_log(how)))], file, LIMIT)
    taken = read_snapshot(str(file), "orders", 0)
    assert taken is not None
    assert taken.end_offset == (5 if how == "aborted" else 2)
    # The uncommitted record went, by a cleaner or by a truncation, and that before it is there.
    healthy = one_each((0, b"k", b"v"), (1, b"other", b"v"), (4, b"last", b"v"))
    lost = healthy[1:]
    for name, batches, expected in (("healthy", healthy, []), ("lost", lost, [("lost_key", 0)])):
        log_of(tmp_path / name, Log(segments=[(0, batches)]))
        rules = rules_at(file)
        found = findings_of("compaction", tmp_path / name, rules=rules, snapshot=str(file))
        assert [(each.damage, each.offset) for each in found if each.check == "S9"] == expected


@pytest.mark.parametrize("how", ["open", "not replicated"])
def test_an_audit_against_a_snapshot_without_committed_records_compares_nothing(
    tmp_path: Path, how: str
) -> None:
    batches = transaction(b"k", 7, 0, None if how == "open" else COMMIT)
    high_watermark = 0 if how == "not replicated" else None
    raw = log_of(tmp_path / "raw", Log(segments=[(0, batches)], high_watermark=high_watermark))
    file = tmp_path / "keys.parquet"
    assert snapshot_logs([str(raw)], file, LIMIT) == 0
    log_of(tmp_path / "later", Log(segments=[(0, one_each((0, b"k", b"v")))]))
    rules = rules_at(file)
    found = findings_of("compaction", tmp_path / "later", rules=rules, snapshot=str(file))
    assert [(each.damage, each.severity) for each in found] == [
        ("nothing_compared", Severity.WARNING)
    ]


def test_snapshot_of_a_damaged_log_is_refused_and_leaves_the_earlier_one(tmp_path: Path) -> None:
    root, file = tmp_path / "logs", tmp_path / "snapshots" / "keys.parquet"
    file.parent.mkdir()
    for partition in range(2):
        log_of(root, make_log(partition=partition))
    snapshot_logs([str(root)], file, LIMIT)
    before = file.read_bytes()
    Segment(root / "orders-1" / "00000000000000000100.log").flip(3, 90)
    with pytest.raises(AuditError, match="a damaged log gives no snapshot"):
        snapshot_logs([str(root)], file, LIMIT)
    assert (list(file.parent.iterdir()), file.read_bytes()) == ([file], before)


def test_more_keys_than_the_limit_are_one_sentence(tmp_path: Path) -> None:
    log_of(tmp_path / "logs", make_log())
    ledger = tmp_path / "acks.jsonl"
    lines = [line(each, b"key %d" % each, b"v") for each in range(11)]
    ledger.write_text("\n".join(lines))
    sentence = "^orders-0 has more than 10 keys: give a higher --rule key.limit"
    with pytest.raises(AuditError, match=sentence):
        snapshot_logs([str(tmp_path / "logs")], tmp_path / "keys.parquet", 10)
    with pytest.raises(AuditError, match=sentence):
        convert_ledger(str(ledger), tmp_path / "ledger.parquet", 10)


def line(offset: int, key: bytes, value: bytes | None) -> str:
    row = {"topic": "orders", "partition": 0, "offset": offset, "timestamp_ms": NOW_MS}
    row["key"] = base64.b64encode(key).decode()
    row["value"] = None if value is None else base64.b64encode(value).decode()
    return json.dumps(row)


def test_audit_reports_acknowledged_records_missing_from_the_log(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", make_log(400, 400))
    records = [record for batch in make_log(400, 400).batches for record in batch.records]
    sound = [line(each.offset, each.key or b"", each.value) for each in records[10:30]]
    wrong = [line(35, records[35].key or b"", b"what the producer sent"), line(900, b"x", b"y")]
    for name, lines, expected in (
        ("sound", sound, set()),
        ("wrong", [*sound, *wrong], {("changed_value", 35), ("lost_key", 900)}),
    ):
        ledger, file = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.parquet"
        ledger.write_text("\n".join(lines) + "\n")
        convert_ledger(str(ledger), file, LIMIT)
        found = findings_of("compaction", log, snapshot=str(file))
        assert {(each.damage, each.offset) for each in found} == expected


@pytest.mark.parametrize(
    ("headers", "value", "is_other"),
    [
        pytest.param(None, b"v", False, id="not in the ledger"),
        pytest.param(None, b"w", True, id="another value"),
        pytest.param([["h", "eA=="], ["n", None]], b"v", False, id="the same"),
        pytest.param([["h", "eQ=="]], b"v", True, id="others"),
    ],
)
def test_a_ledger_may_lack_the_headers_of_its_records(
    tmp_path: Path, headers: Any, value: bytes, is_other: bool
) -> None:
    [batch] = one_each((0, b"k", b"v"))
    record = replace(batch.records[0], headers=((b"h", b"x"), (b"n", None)))
    log = log_of(tmp_path / "log", Log(segments=[(0, [replace(batch, records=(record,))])]))
    ledger, file = tmp_path / "acks.jsonl", tmp_path / "acks.parquet"
    row = json.loads(line(0, b"k", value))
    ledger.write_text(json.dumps(row if headers is None else row | {"headers": headers}))
    convert_ledger(str(ledger), file, LIMIT)
    found = findings_of("compaction", log, snapshot=str(file))
    assert [each.damage for each in found] == (["changed_value"] if is_other else [])


@pytest.mark.parametrize(("days", "severity"), [(0, Severity.ERROR), (2, Severity.WARNING)])
def test_a_key_of_an_old_ledger_may_have_been_deleted(
    tmp_path: Path, days: int, severity: Severity
) -> None:
    log = log_of(tmp_path / "log", make_log())
    ledger, file = tmp_path / "acks.jsonl", tmp_path / "acks.parquet"
    ledger.write_text(line(7, b"deleted", b"v"))
    convert_ledger(str(ledger), file, LIMIT)
    rules = replace(RULES, now_ms=NOW_MS + days * DAY_MS)
    found = findings_of("compaction", log, snapshot=str(file), rules=rules)
    assert [(each.damage, each.severity) for each in found] == [("lost_key", severity)]


def test_an_audit_removes_the_snapshot_that_it_has_made_of_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path / "log", make_log())
    ledger, temporary = tmp_path / "acks.jsonl", tmp_path / "temporary"
    ledger.write_text(line(0, b"k", b"v") + "\n")
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    rows: list[int] = []

    def run(_request: Request, tasks: Sequence[AuditTask]) -> tuple[list[Any], list[Any]]:
        rows.extend(parquet.read_table(task.snapshot).num_rows for task in tasks)
        return [], []

    monkeypatch.setattr("analytics.run._run_on_spark", run)
    run_audit(Request(audit=Audit.COMPACTION, directories=[str(log)], against=str(ledger)))
    assert (rows, list(temporary.iterdir())) == ([1], [])


@pytest.mark.parametrize(
    "text", ["no json", '{"topic": "orders"}', line(1, b"k", b"v")[:-3] + '!"}']
)
def test_malformed_ledger_line_is_reported(tmp_path: Path, text: str) -> None:
    ledger = tmp_path / "acks.jsonl"
    ledger.write_text(line(0, b"k", b"v") + "\n" + text + "\n")
    with pytest.raises(AuditError, match="line 2"):
        convert_ledger(str(ledger), tmp_path / "x.parquet", LIMIT)


def test_file_that_is_no_snapshot_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no parquet")
    with pytest.raises(AuditError, match="is not from `ottla audit snapshot`"):
        read_snapshot(str(tmp_path / "x"), "orders", 0)
    with pytest.raises(AuditError, match="is not from `ottla audit snapshot`"):
        open_snapshot(str(tmp_path / "x"), 100)
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "z")
    with pytest.raises(AuditError, match="its columns differ"):
        open_snapshot(str(tmp_path / "z"), 100)
    with pytest.raises(AuditError, match="No such file"):
        convert_ledger(str(tmp_path / "none.jsonl"), tmp_path / "y", LIMIT)
