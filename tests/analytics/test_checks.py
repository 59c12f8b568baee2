"""Corner cases of single checks."""

import struct
from array import array
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from analytics.errors import AuditError
from analytics.file_store import OpenFile
from analytics.finding_row import distinct_rows, finding_row
from analytics.plan import Audit, split_task, spread_tasks
from analytics.report.chart import (
    MAX_LABEL_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    Bar,
    Span,
    bar_chart,
    chart_text,
    timeline,
)
from analytics.report.figures import draw_charts, size_text
from analytics.report.page import MAX_LISTED, START, render_page
from analytics.task import AuditTask, task_from_json
from analytics.verdict import judge
from kafkawire import columns_loops, key_table_loops
from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.key_table_loops import KeyLimitError
from kafkawire.native import KeyTable
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder
from kafkawire.units import MIB
from logcheck.batch_digest import BatchDigest, find_differences
from logcheck.batch_walk import Batch, Hole, Walk
from logcheck.finding import Check, Damage, Finding, Severity
from logcheck.finding_list import FindingList
from logcheck.log_scan import LogScan, read_record
from logcheck.log_view import LogView
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.rule import Rules
from logcheck.segment_columns import SegmentColumns
from tests.analytics.audited import RULES, findings_of
from tests.analytics.compaction_violations import cleaned
from tests.analytics.log_model import START_MS, Bat, Log, Rec, compact, make_log, rebuild
from tests.analytics.planter import Segment, edit
from tests.unit.logcheck.partition_bytes import BytesSource

FINDING = Finding(
    check=Check.BATCHES, damage=Damage.BAD_CRC, file="f", expected="this", found="that"
)


def walked(source: BytesSource) -> tuple[list[Batch | Hole], list[str]]:
    found: list[Finding] = []
    items = list(Walk(source, "f", found.append).items())
    return items, [each.damage for each in found]


BATCH = Bat(0, 0, (Rec(0, b"k", b"v" * 50, START_MS),)).encode()


def test_walk_ends_where_a_file_shrinks() -> None:
    shrunk = BytesSource(BATCH + BATCH[:80])
    shrunk.size_bytes = 2 * len(BATCH)
    items, kinds = walked(shrunk)
    assert isinstance(items[0], Batch)
    assert isinstance(items[1], Hole)
    assert len(kinds) == 1


def test_partial_header_with_a_plausible_length_is_bad_header() -> None:
    cut = bytearray(BATCH[:40])
    struct.pack_into(">i", cut, 8, 20)
    _, kinds = walked(BytesSource(BATCH + bytes(cut)))
    assert kinds == ["bad_header"]


def test_walk_skips_a_batch_inside_a_damaged_record() -> None:
    inner = Bat(0, 0, (Rec(0, b"k", BATCH, START_MS),)).encode()
    damaged = bytearray(inner)
    damaged[-1] ^= 1
    items, kinds = walked(BytesSource(bytes(damaged) + BATCH))
    assert kinds == ["bad_crc"]
    assert [item.position for item in items] == [0, len(inner)]


def test_finding_prints_its_place() -> None:
    assert str(FINDING) == "f: bad_crc: expected this, found that"


def test_finding_list_only_counts_findings_beyond_its_limit() -> None:
    rows = FindingList(ReplicaFiles(topic="t", partition=0, replica="r", directory="t-0"), 2)
    for _ in range(5):
        rows.report(FINDING)
    assert [row.found for row in rows.rows()] == ["that", "that", "3 more of bad_crc"]
    assert [row.more for row in rows.rows()] == [0, 0, 2]
    rows.report(FINDING.counted(10))
    assert rows.rows()[-1].found == "14 more of bad_crc"


def test_many_notes_hide_no_error_of_the_same_damage() -> None:
    rows = FindingList(ReplicaFiles(topic="t", partition=0, replica="r", directory="t-0"), 2)
    for _ in range(5):
        rows.report(replace(FINDING, severity=Severity.NOTE))
    rows.report(FINDING)
    assert Severity.ERROR in [row.severity for row in rows.rows()]


def test_time_index_entry_after_the_first_maximum_is_reported(tmp_path: Path) -> None:
    records = [Rec(n, b"k%d" % n, b"v", START_MS if n < 2 else START_MS - 5) for n in range(4)]
    batches = [Bat(n, n, (record,)) for n, record in enumerate(records)]
    log = Log(segments=[(0, batches), (4, [Bat(4, 4, (Rec(4, b"k", b"v", START_MS),))])])
    directory = log.write(tmp_path)
    assert findings_of("integrity", tmp_path) == []
    times = directory / "00000000000000000000.timeindex"
    edit(times, lambda data: struct.pack_into(">i", data, 8, 3))
    [found] = findings_of("integrity", tmp_path)
    assert (found.damage, found.offset, found.expected) == ("time_offset", 3, "offset 0")


def test_records_removed_beyond_the_cleaner_checkpoint_are_notes(tmp_path: Path) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    log = compact(raw, horizon_ms=RULES.now_ms + RULES.delete_retention_ms)
    log.cleaner_point = 150
    log.write(tmp_path / "clean")
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert found
    assert {each.severity for each in found} == {Severity.NOTE}
    assert "cleaned_beyond_checkpoint" in {each.damage for each in found}


def test_cleaner_explains_removals_and_horizons_only() -> None:
    raw = make_log().batches
    short = Bat(100, 104, (Rec(100, b"k", b"v", START_MS),))
    other = Bat(100, 104, tuple(Rec(n, b"k", b"v", START_MS) for n in range(100, 105)))
    for changed, is_cleaning in (
        ([batch_with_horizon(raw[20])], True),
        ([], True),
        ([short], True),
        ([other], False),
        ([replace(raw[20], epoch=5)], False),
        ([replace(short, epoch=5)], False),
        ([replace(short, last=103)], False),
        ([replace(short, codec=Codec.LZ4)], False),
        ([replace(short, codec=Codec.LZ4, records=())], True),
    ):
        batches = [*raw[:20], *changed, *raw[21:]]
        [difference] = find_differences(digest_of(raw), digest_of(batches), 0, 400)
        assert (difference.offset, difference.may_be_cleaning) == (100, is_cleaning)
        [back] = find_differences(digest_of(batches), digest_of(raw), 0, 400)
        assert (back.offset, back.may_be_cleaning) == (100, is_cleaning)
        assert not is_cleaning or (difference.is_lacking_after, back.is_lacking_after) == (
            True,
            False,
        )
    assert list(find_differences(digest_of(raw), digest_of(raw[:20]), 0, 100)) == []
    assert digest_of([]).place(0) == ("", 0)
    assert len(digest_of(raw)) == 80


def batch_with_horizon(batch: Bat) -> Bat:
    return Bat(batch.first, batch.last, batch.records, horizon_ms=START_MS)


def digest_of(batches: list[Bat]) -> BatchDigest:
    from logcheck.batch_check import BatchCheck

    digest = BatchDigest(0)
    data = b"".join(batch.encode() for batch in batches)
    check = BatchCheck("f", lambda _: None)
    for item in Walk(BytesSource(data), "f", lambda _: None).items():
        assert isinstance(item, Batch)
        sound = check.open(item)
        assert sound is not None
        digest.on_batch(sound)
    return digest


def test_duplicates_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    log = make_log()
    log.cleaner_point = 300
    log.write(tmp_path)
    rules = Rules(now_ms=RULES.now_ms, finding_limit=5)
    found = [
        each for each in findings_of("compaction", tmp_path, rules=rules) if each.check == "S8"
    ]
    assert [each.damage for each in found].count(Damage.DUPLICATE_KEY) == 5
    [more] = [each for each in found if each.damage == "more_duplicate_keys"]
    assert more.found.startswith("255 more")


def test_mismatches_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    raw = make_log(400, 200)
    raw.write(tmp_path / "raw")
    log = compact(raw, horizon_ms=RULES.now_ms + RULES.delete_retention_ms)
    changed = [
        Bat(
            batch.first,
            batch.last,
            tuple(Rec(each.offset, each.key, b"!", each.timestamp_ms) for each in batch.records),
        )
        for batch in cleaned(log)
    ]
    rebuild(log, changed).write(tmp_path / "clean")
    rules = Rules(now_ms=RULES.now_ms, finding_limit=5)
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw", rules=rules)
    kinds = [each.damage for each in found]
    assert (kinds.count(Damage.CHANGED_VALUE), kinds.count(Damage.MORE_MISMATCHES)) == (5, 1)


def test_scan_reads_a_record_again_by_its_offset(tmp_path: Path) -> None:
    log = make_log(20)
    directory = log.write(tmp_path)
    files = ReplicaFiles(
        topic="orders",
        partition=0,
        replica="r",
        directory=str(directory),
        segments=(
            SegmentFiles(
                base_offset=0, log=str(directory / "00000000000000000000.log"), size_bytes=1
            ),
        ),
    )
    scan: LogView = LogScan(files, lambda _: None, OpenFile)
    assert isinstance(scan, LogScan)
    scan.run([])
    assert scan.read_record(7) == (log.batches[1].records[2].key, log.batches[1].records[2].value)
    assert scan.read_record(700) is None
    assert read_record(OpenFile, str(tmp_path / "none"), 0, 0) is None


def test_task_survives_a_round_trip_through_json() -> None:
    segment = SegmentFiles(base_offset=0, log="f", size_bytes=3, index="i")
    replica = ReplicaFiles(
        topic="t",
        partition=0,
        replica="r",
        directory="d",
        segments=(segment,),
        foreign=("x",),
        snapshots=((5, "s"),),
    )
    for reference in (None, replica):
        task = AuditTask(
            replicas=(replica,), rules=RULES, checks=("S1",), reference=reference, size_bytes=3
        )
        assert task_from_json(task.to_json()) == task
    with pytest.raises(AuditError, match="is too low"):
        split_task(AuditTask(replicas=(), rules=RULES, checks=(), shard_count=4096))


@pytest.mark.parametrize(
    ("sizes_mib", "core_count", "shard_counts"),
    [
        pytest.param([100], 2, [2, 2], id="one for each core"),
        pytest.param([100], 3, [2, 2], id="a power of two"),
        pytest.param([100], 64, [4] * 4, id="no more than are worth it"),
        pytest.param([100, 1], 4, [2, 2, 1], id="only the large one"),
        pytest.param([100] * 3, 4, [1] * 3, id="no two idle cores for each"),
        pytest.param([], 4, [], id="nothing to do"),
    ],
)
def test_large_tasks_are_spread_over_idle_cores(
    sizes_mib: list[int], core_count: int, shard_counts: list[int]
) -> None:
    tasks = [
        AuditTask(replicas=(), rules=RULES, checks=("S8",), size_bytes=each * MIB)
        for each in sizes_mib
    ]
    assert [each.shard_count for each in spread_tasks(tasks, core_count)] == shard_counts


def test_checks_without_keys_are_not_spread() -> None:
    task = AuditTask(replicas=(), rules=RULES, checks=("S1", "S12"), size_bytes=100 * MIB)
    assert spread_tasks([task], 8) == [task]


def test_verdict_counts_kinds_and_ignores_notes() -> None:
    rows = [
        {"severity": "note", "what": "torn_tail", "more": 1_500},
        {"severity": "error", "what": "lost_key", "more": 0},
        {"severity": "warning", "what": "old", "more": 2},
    ]
    summary: dict[str, Any] = {"topic": "t", "partition": 0, "replica": "r", "shard": 0}
    summary |= {"records": 5, "bytes": 9, "not_checked": {}}
    clean = judge(Audit.INTEGRITY, rows[:1], [summary], 1.0)
    assert clean.line() == (
        "integrity: clean (1 notes); 1 partitions, 1 replicas, 5 records, 9 bytes in 1.0 s"
    )
    found = judge(Audit.INTEGRITY, rows, [summary, summary | {"shard": 1}], 1.0)
    assert (found.exit_code, found.records, found.by_kind) == (3, 5, {"lost_key": 1, "old": 1})
    assert found.line().startswith("integrity: 1 errors, 1 warnings (1 lost_key, 1 old); ")
    assert found.to_json()["clean"] is False
    assert found.to_json()["unlisted"] == {"warning": 2, "note": 1_500}
    assert found.lines()[1] == "  not listed: 2 warnings, 1,500 notes more"


def test_rows_of_several_shards_are_listed_once_and_counted_together() -> None:
    listed, counted = finding_row(FINDING), finding_row(FINDING.counted(9))
    rows = distinct_rows([listed, counted, dict(listed), dict(counted)])
    assert [row["more"] for row in rows] == [0, 19]


def test_page_contains_every_chart_and_escapes_its_input() -> None:
    summary = {
        "topic": "<b>",
        "partition": 0,
        "replica": "a rather long directory, of which only the end is shown",
        "not_checked": {},
        "records": 5,
        "bytes": 3 * 1024**2,
        "dirty_bytes": 1024,
        "reclaimable_bytes": 2 * 1024**4,
        "records_per_key": [3, 0, 1],
        "now_ms": START_MS,
        "horizons_ms": [START_MS, START_MS - 10**9],
        "hot_keys": [{"key": "'<k>'", "count": 7, "last_offset": 1}],
        "timeline": [
            {"base_offset": 0, "bytes": 10, "oldest_ms": START_MS, "newest_ms": START_MS + 9},
            {"base_offset": 1, "bytes": 10, "oldest_ms": -1, "newest_ms": -1},
            {"base_offset": 2, "bytes": 10, "oldest_ms": 0, "newest_ms": 2**62},
        ],
    }
    row = finding_row(FINDING) | {"expected": "<script>", "topic": "</script>"}
    charts = draw_charts([row], [summary])
    page = render_page(
        judge(Audit.COST, [row], [summary], 1.0), [row] * (MAX_LISTED + 1), charts, "the library"
    )
    for title in (
        "Findings by",
        "Dirty ratio",
        "would reclaim",
        "Records per key",
        "Tombstones",
        "Segments",
        "Hot",
    ):
        assert title in page
    assert page.count("<script") == page.count("</script>") == 3
    assert page.count("<b>") == page.count("<k>") == 0
    assert "findings.parquet lists 1 more" in page
    [segments] = [chart for chart in charts if chart.title.startswith("Segments")]
    assert segments.figure["data"][0]["x"] == [9]
    assert size_text(5) == "5 B"


def test_page_without_charts_has_no_script() -> None:
    assert draw_charts([], []) == []
    page = render_page(judge(Audit.COST, [], [], 1.0), [], [], "the library")
    assert "no figures" in page
    assert "None." in page
    assert "<script" not in page
    assert "script-src 'none'" in page


def test_policy_of_the_page_allows_its_two_scripts_alone() -> None:
    chart = bar_chart("title", [Bar("a", 1, "1")])
    page = render_page(judge(Audit.COST, [], [], 1.0), [], [chart], "the library")
    digest = b64encode(sha256(b"the library").digest()).decode()
    start = b64encode(sha256(START.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' 'sha256-{start}'; " in page
    assert "default-src 'none'" in page


LONG = "a rather long directory, of which only the end is shown /b1 orders-0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("b1 orders-0", "b1 orders-0"),
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ("a\n\x1b\u202e\udcff", r"a\n\x1b\u202e\udcff"),
        ("x" * 1_000, "x" * MAX_TEXT_CHARACTERS + "..."),
    ],
)
def test_charts_show_text_as_it_is(text: str, shown: str) -> None:
    assert chart_text(text) == shown


def test_labels_are_ends_and_hints_are_whole() -> None:
    bars = [Bar("b", 1, "1"), Bar(LONG, 100, "<1>", 40)]
    spans = [Span("b", 0, 1, "1"), Span(LONG, 50, 100, "<1>"), Span(LONG, 100, 100, "<1>")]
    for chart in (bar_chart("t", bars), bar_chart("t", bars, ("a", "b")), timeline("t", spans)):
        labels = chart.figure["layout"]["yaxis"]["ticktext"]
        assert labels[:2] == ["b", "..." + LONG[3 - MAX_LABEL_CHARACTERS :]]
        assert len(labels[1]) == MAX_LABEL_CHARACTERS
        for trace in chart.figure["data"]:
            assert trace["hovertext"][1] == f"{LONG}<br>&lt;1&gt;"


def test_shares_add_up_and_moments_have_a_length() -> None:
    dirty, clean = bar_chart("t", [Bar("a", 100, "", 40)], ("dirty", "clean")).figure["data"]
    assert (dirty["x"], clean["x"], dirty["name"]) == ([40], [60], "dirty")
    [trace] = timeline("t", [Span("a", 1_500, 1_500, ""), Span("b", 0, 9, "")]).figure["data"]
    assert (trace["base"][0], trace["x"]) == ("1970-01-01 00:00:01.500", [1, 9])


def test_histogram_classes_have_readable_labels() -> None:
    summary = {"records_per_key": [1, 2, 3, 4], "now_ms": 0, "horizons_ms": [0]}
    records, ages = draw_charts([], [summary])
    assert records.figure["layout"]["yaxis"]["ticktext"] == [
        "1 record",
        "2 records",
        "3 to 4 records",
        "5 to 8 records",
    ]
    assert records.figure["data"][0]["text"][:2] == ["1 key", "2 keys"]
    labels = ages.figure["layout"]["yaxis"]["ticktext"]
    assert (labels[0], labels[-1]) == ("under -24 hours", "720 hours and more")


def section(count: int) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(START_MS, b"%d" % number, b"v", (("h", b"1"),))
    return bytes(builder.build())[BATCH_HEADER_BYTES:]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 1),
        (section(1), 2),
        (section(2), 1),
        (b"\x0c\0\0\0\1\1\2", 1),
        (b"\x0e\0\0\0\1\1\2\1", 1),
        (b"\x12\0\0\0\1\1\2\1\1\0", 1),
        (b"\xff\xff\xff\xff\xff\x01" + bytes(7), 1),
        (b"\xff\xff\xff\xff\x1f" + bytes(7), 1),
        (b"\x0e\0\0\0\0\0\0\0\0", 1),
        (b"\x0c\0\x80\x80\x80\x80\x80", 1),
    ],
)
def test_malformed_record_section_is_rejected(data: bytes, count: int) -> None:
    with pytest.raises(CorruptBatchError):
        columns_loops.survey_section(data, count, count - 1, START_MS)


def test_plain_loops_find_the_first_record_out_of_order() -> None:
    survey = columns_loops.survey_section(section(3), 3, 1, START_MS)
    assert (survey.first_out_of_order, survey.without_key) == (2, 0)


def test_plain_table_matches_its_own_records() -> None:
    table = key_table_loops.KeyTable(9)
    table.note(section(3), 3, 0, START_MS, None, 100)
    assert table.match(section(2), 2, 0, START_MS, None, 0, 100, 100, 9) == []
    assert array("q", table.unseen(0, 9))[2::6].tolist() == [2]
    assert table.unseen(0, 2) == table.unseen(3, 9) == b""
    other = BatchBuilder()
    other.append(START_MS, b"0", b"other")
    changed = bytes(other.build())[BATCH_HEADER_BYTES:]
    assert table.match(changed, 1, 0, START_MS, None, 0, 100, 100, 9) == [
        (key_table_loops.Mismatch.OTHER_VALUE, 0, 0)
    ]
    assert table.match(section(1), 1, 0, START_MS + 1, None, 0, 100, 100, 9) == [
        (key_table_loops.Mismatch.OTHER_TIME, 0, 0)
    ]


def with_attributes(number: int) -> bytes:
    """Return one record whose attributes, its second byte, are not zero."""
    data = section(1)
    return data[:1] + bytes([number]) + data[2:]


@pytest.mark.parametrize(
    ("reference", "found", "is_same"), [(0, 0, True), (7, 7, True), (7, 0, True), (0, 7, False)]
)
def test_attributes_may_be_cleared_but_not_set(reference: int, found: int, is_same: bool) -> None:
    for table_type in (key_table_loops.KeyTable, KeyTable):
        table = table_type(9)
        table.note(with_attributes(reference), 1, 0, START_MS, None, 100)
        place = 1, 0, START_MS, None, 0, 100, 100, 9
        assert (table.match(with_attributes(found), *place) == []) is is_same


def test_batch_across_the_cleaner_point_is_checked_only_below_it(tmp_path: Path) -> None:
    raw = make_log(400, 400)
    raw.write(tmp_path / "raw")
    raw.cleaner_point = 102
    raw.write(tmp_path / "clean")
    assert findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw") == []


def test_empty_segment_ends_at_its_base_offset() -> None:
    columns = SegmentColumns(40, "f")
    assert (columns.next_offset, columns.newest_timestamp_ms) == (40, -1)


def test_plain_table_enforces_its_limit_and_marks_newer_keys() -> None:
    table = key_table_loops.KeyTable(3)
    table.note(section(3), 3, 0, START_MS, None, 100)
    full = table.export()
    assert table.match(section(4), 4, 50, START_MS, None, 0, 40, 0, 9) == []
    assert table.unseen(0, 99) == b""
    small = key_table_loops.KeyTable(2)
    with pytest.raises(KeyLimitError):
        small.load(full)
    with pytest.raises(KeyLimitError):
        key_table_loops.KeyTable(2).note(section(3), 3, 0, START_MS, None, 100)
    halves = [key_table_loops.KeyTable(9, shard, 2) for shard in (0, 1)]
    for half in halves:
        half.load(full)
    assert sum(half.key_count for half in halves) == 3


def test_malformed_control_batch_is_reported(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    control = Bat(
        0,
        0,
        (Rec(0, b"?", b"?", START_MS),),
        producer_id=5,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    path = directory / "00000000000000000000.log"
    path.write_bytes(control.encode())
    Segment(path).restore_indexes()
    [found] = findings_of("integrity", tmp_path)
    assert (found.damage, found.offset) == ("bad_marker", 0)


def test_new_producer_epoch_drops_the_batches_of_the_old_one(tmp_path: Path) -> None:
    from tests.analytics.test_other_audits import with_producers

    raw = with_producers()
    fence = Bat(
        200,
        200,
        (Rec(200, b"\0\0\0\0", b"\0\0\0\0\0\0", START_MS),),
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    raw.segments.append((200, [fence]))
    raw.segments.append((201, []))
    raw.write(tmp_path / "raw")
    gone = Log(segments=[(0, []), (200, [fence]), (201, [])], cleaner_point=201)
    gone.write(tmp_path / "clean")
    found = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert "producer_lost" not in {each.damage for each in found}
