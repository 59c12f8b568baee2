"""The integrity audit finds every kind of structural damage with its place, and nothing else."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.discovery import find_replicas, group_by_partition
from analytics.plan import Audit, plan_tasks
from analytics.replica_audit import ReplicaAudit
from kafkawire.compression import Codec
from logcheck.finding import Severity
from logcheck.rule import Rules
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.analytics.audited import NOW_MS, RULES, findings_of, summaries_of
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.integrity_violations import INTEGRITY, Plant
from tests.analytics.log_model import Log, make_log
from tests.analytics.planter import Segment


def two_epochs() -> Log:
    """Return a log of four segments, the second half of which has the next leader epoch."""
    log = make_log()
    segments = [
        (base, [replace(batch, epoch=int(base >= 200)) for batch in batches])
        for base, batches in log.segments
    ]
    return replace(log, segments=segments, epochs=[(0, 0), (1, 200)])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_sound_log_passes(tmp_path: Path, codec: Codec) -> None:
    make_log(codec=codec).write(tmp_path)
    assert findings_of("integrity", tmp_path) == []


@pytest.mark.parametrize("plant", INTEGRITY.values(), ids=INTEGRITY.keys())
def test_audit_and_verify_report_exactly_the_planted_damage(tmp_path: Path, plant: Plant) -> None:
    expected = plant(two_epochs().write(tmp_path))
    results = verify_directories([tmp_path], VerifyOptions(with_records=True, rules=RULES))
    for found in (
        findings_of("integrity", tmp_path),
        [finding for result in results for finding in result.reported],
    ):
        assert {(each.damage, Path(each.file).name, each.offset) for each in found} == expected
        assert len(found) == len(expected)


def test_an_epoch_that_begins_while_the_log_is_read_is_no_finding(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    [task] = plan_tasks(
        Audit.INTEGRITY, group_by_partition(find_replicas(str(tmp_path), lambda _: None)), {}, RULES
    )
    audit = ReplicaAudit(task, task.replicas[0])
    # The broker appends 100 more records, and then the leader changes.
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 500\n")
    findings, _ = audit.run()
    assert findings == []


def test_table_lists_at_least_forty_violations() -> None:
    assert len(INTEGRITY) >= 40


def test_segment_that_is_being_swapped_in_is_audited(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    for path in directory.glob("00000000000000000100.*"):
        path.rename(path.with_name(path.name + ".swap"))
    for root in (tmp_path, directory):
        [summary] = summaries_of("integrity", root)
        assert (summary["segments"], summary["log_end_offset"]) == (4, 400)
        assert findings_of("integrity", root) == []


def test_the_torn_end_of_the_active_segment_is_a_note(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000300.log")
    segment.append(segment.batches[0][:50])
    [note] = findings_of("integrity", tmp_path)
    assert (note.damage, note.severity) == ("torn_tail", Severity.NOTE)
    assert note.position == segment.position(20)


def test_a_followers_sparse_index_passes_unless_strict(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    segment = Segment(directory / "00000000000000000100.log")
    # One entry per append of ten batches: last offset of the last batch, position of the first.
    entry = b"\0\0\0\x31" + segment.position(0).to_bytes(4, "big")
    second = b"\0\0\0\x63" + segment.position(10).to_bytes(4, "big")
    (directory / "00000000000000000100.index").write_bytes(entry + second)
    assert findings_of("integrity", tmp_path) == []
    strict = findings_of("integrity", tmp_path, rules=Rules(now_ms=NOW_MS, is_strict=True))
    assert {each.damage for each in strict} == {"index_offset"}


def test_the_table_in_the_docs_is_complete() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audits.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert set(INTEGRITY) | set(COMPACTION) <= rows


def test_duplicate_batch_hides_no_later_violation(tmp_path: Path) -> None:
    directory = two_epochs().write(tmp_path)
    expected = INTEGRITY["a duplicate batch"](directory)
    expected |= INTEGRITY["an epoch beyond the log"](directory)
    found = findings_of("integrity", tmp_path)
    assert {(each.damage, Path(each.file).name, each.offset) for each in found} == expected


def test_maximum_timestamp_too_high_is_a_finding(tmp_path: Path) -> None:
    """Retention by time would keep the segment for too long."""
    directory = make_log().write(tmp_path)
    segment = Segment(directory / "00000000000000000100.log")
    newest_ms = segment.header(3).max_timestamp_ms
    segment.patch(3, 35, struct.pack(">q", newest_ms + 1), with_crc=True)
    found = findings_of("integrity", tmp_path)
    place = ("record_timestamp", segment.header(3).base_offset)
    assert [(each.damage, each.offset) for each in found] == [place]


def test_topic_id_is_checked_and_compared(tmp_path: Path) -> None:
    for name, topic_id in (("a", "A" * 22), ("b", "B" * 22), ("c", "garbage")):
        directory = make_log().write(tmp_path / name)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    [differs] = findings_of("replicas", tmp_path / "a", tmp_path / "b")
    assert (differs.damage, Path(differs.file).name) == ("replica_differs", "partition.metadata")
    [bad] = findings_of("integrity", tmp_path / "c")
    assert (bad.damage, Path(bad.file).name) == ("bad_property", "partition.metadata")
    [result] = verify_directories([tmp_path / "c"])
    assert [each.damage for each in result.findings] == ["bad_property"]
