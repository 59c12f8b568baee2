"""The comparisons that took place: an audit is never clean without a comparison asked for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.coverage import NO_BATCHES, NO_REFERENCE, NOT_CLEANED, ONE_REPLICA
from analytics.errors import AuditError, AuditUsageError
from analytics.finding_row import finding_row
from analytics.plan import Audit
from analytics.report.page import render_page
from analytics.run import Request, plan, snapshot_logs
from analytics.verdict import Verdict, judge
from logcheck.finding import Finding
from ottla.cli.app import make_app
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.log_model import add_checkpoint, compact, make_log

HORIZON_MS = NOW_MS + RULES.delete_retention_ms


def request(audit: Audit, *directories: Path, against: Path | None = None) -> Request:
    return Request(
        audit=audit,
        directories=[str(each) for each in directories],
        against=None if against is None else str(against),
        rules=RULES,
    )


def listed(request: Request) -> list[tuple[str, str, int]]:
    """Return kind, severity and partition of the findings before any file is read."""
    _, found = plan(request)
    return [(each.damage, each.severity, each.partition) for each in found]


def audited(request: Request) -> Verdict:
    """Return the verdict of the audit, without Spark."""
    from analytics.spark_audit import run_task

    tasks, found = plan(request)
    outcomes = [outcome for task in tasks for outcome in run_task(task) or ()]
    rows = [finding_row(each) for each in found] + [row for rows, _ in outcomes for row in rows]
    return judge(request.audit, rows, [summary for _, summary in outcomes], 1.0)


def test_partition_that_the_reference_lacks_is_a_warning(tmp_path: Path) -> None:
    for partition in range(2):
        compact(make_log(partition=partition), horizon_ms=HORIZON_MS).write(tmp_path / "clean")
    make_log(partition=1).write(tmp_path / "raw")
    compaction = request(Audit.COMPACTION, tmp_path / "clean", against=tmp_path / "raw")
    assert listed(compaction) == [("no_reference", "warning", 0)]
    verdict = audited(compaction)
    assert (verdict.exit_code, verdict.by_kind) == (3, {"no_reference": 1})
    assert verdict.coverage.not_checked == {"S9": {NO_REFERENCE: 1}, "S11": {NO_REFERENCE: 1}}


def test_snapshot_without_the_partition_is_a_warning(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path / "log")
    file = tmp_path / "keys.parquet"
    snapshot_logs([str(tmp_path / "log" / "orders-1")], file, 1000)
    compaction = request(Audit.COMPACTION, tmp_path / "log", against=file)
    assert listed(compaction) == [("no_reference", "warning", 0)]
    coverage = audited(compaction).coverage
    assert coverage.not_checked["S11"] == {NO_BATCHES: 2}


def test_reference_without_any_of_the_partitions_fails(tmp_path: Path) -> None:
    make_log().write(tmp_path / "clean")
    make_log(partition=1).write(tmp_path / "raw")
    (tmp_path / "empty").mkdir()
    for name in ("raw", "empty"):
        with pytest.raises(AuditError, match="none of the audited partitions, such as orders-0"):
            plan(request(Audit.COMPACTION, tmp_path / "clean", against=tmp_path / name))


def one(path: Path) -> list[str]:
    return [str(path / "a")]


def twice(path: Path) -> list[str]:
    return [str(path / "a"), f"{path}/a/"]


def linked(path: Path) -> list[str]:
    (path / "link").symlink_to(path / "a")
    return [str(path / "a"), str(path / "link")]


@pytest.mark.parametrize("directories", [one, twice, linked])
def test_replicas_needs_two_different_directories(
    tmp_path: Path, directories: Callable[[Path], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    make_log().write(tmp_path / "a")
    with pytest.raises(SystemExit) as ended:
        make_app()(["audit", "replicas", *directories(tmp_path)])
    output = capsys.readouterr()
    assert (ended.value.code, output.out) == (2, "")
    [line] = output.err.splitlines()
    assert "replicas needs 2 different log directories" in line


def test_reference_must_be_another_log_and_must_be_read(tmp_path: Path) -> None:
    make_log().write(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(AuditUsageError, match="is the audited directory itself"):
        plan(request(Audit.COMPACTION, tmp_path / "a", against=tmp_path / "link"))
    with pytest.raises(AuditUsageError, match="integrity compares nothing with --against"):
        plan(request(Audit.INTEGRITY, tmp_path / "a", against=tmp_path / "b"))


def test_partition_in_one_directory_only_is_a_warning(tmp_path: Path) -> None:
    for name, partitions in (("a", (0, 1)), ("b", (1, 2)), ("c", (1,))):
        for partition in partitions:
            make_log(partition=partition).write(tmp_path / name)
    replicas = request(Audit.REPLICAS, *(tmp_path / name for name in "abc"))
    expected = [("replica_missing", "warning", 0), ("replica_missing", "warning", 2)]
    assert listed(replicas) == expected
    coverage = audited(replicas).coverage
    assert (coverage.checks, coverage.not_checked) == ({"S4": 3}, {"S4": {ONE_REPLICA: 2}})
    with pytest.raises(AuditError, match="no partition is in two of"):
        plan(request(Audit.REPLICAS, tmp_path / "a" / "orders-0", tmp_path / "c"))


def test_linked_partition_is_no_other_replica(tmp_path: Path) -> None:
    make_log(partition=1).write(tmp_path / "a")
    for name in "ab":
        make_log().write(tmp_path / name)
    (tmp_path / "b" / "orders-1").symlink_to(tmp_path / "a" / "orders-1")
    replicas = request(Audit.REPLICAS, tmp_path / "a", tmp_path / "b")
    assert listed(replicas) == [("replica_missing", "warning", 1)]


def test_replicas_without_common_offsets_are_a_warning(tmp_path: Path) -> None:
    for name in "ab":
        make_log().write(tmp_path / name)
    checkpoint = tmp_path / "b" / "replication-offset-checkpoint"
    checkpoint.unlink()
    add_checkpoint(checkpoint, "orders", 0, 0)
    [found] = findings_of("replicas", tmp_path / "a", tmp_path / "b")
    assert (found.damage, found.severity) == ("nothing_compared", "warning")
    assert found.found == "none: 0 to 0 by keys, 0 to 0 by batches"


def test_log_without_common_offsets_with_its_reference_is_a_warning(tmp_path: Path) -> None:
    make_log().write(tmp_path / "raw")
    (tmp_path / "clean" / "orders-0").mkdir(parents=True)
    assert kinds(findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")) == [
        "nothing_compared"
    ]
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    assert findings_of("compaction", tmp_path / "clean", against=tmp_path / "other") == []


def kinds(found: list[Finding]) -> list[str]:
    return [each.damage for each in found]


def test_verdict_names_the_compared_ranges_and_the_checks(tmp_path: Path) -> None:
    make_log().write(tmp_path / "raw")
    log = compact(make_log(), horizon_ms=HORIZON_MS)
    log.write(tmp_path / "clean")
    point = log.cleaner_point
    compaction = request(Audit.COMPACTION, tmp_path / "clean", against=tmp_path / "raw")
    verdict = audited(compaction)
    assert verdict.lines() == [
        verdict.line(),
        "  checked: S1, S2, S3, S8, S9, S10, S11, S12, S13",
        f"  compared: 400 offsets of 1 partitions (orders-0 0..{(point or 0) - 1} by keys, "
        f"orders-0 {point}..399 by batches)",
    ]
    assert verdict.to_json()["coverage"] == {
        "checks": dict.fromkeys(["S1", "S2", "S3", "S8", "S9", "S10", "S11", "S12", "S13"], 1),
        "not_checked": {},
        "compared_partitions": 1,
        "compared_offsets": 400,
    }
    assert "400 offsets of 1 partitions" in render_page(verdict, [], [], "")


def test_verdict_names_the_checks_that_could_not_run(tmp_path: Path) -> None:
    make_log().write(tmp_path / "raw")
    verdict = audited(request(Audit.COMPACTION, tmp_path / "raw"))
    assert verdict.lines()[1:] == [
        "  checked: S1, S2, S3, S12, S13",
        f"  not checked: S8, S10: {NOT_CLEANED}",
        f"  not checked: S11, S9: {NO_REFERENCE}",
    ]
