"""Wrong directories and foreign, truncated or missing files: findings, or an error in one line."""

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.discovery import find_replicas, group_by_partition
from analytics.errors import AuditError
from analytics.plan import Audit, plan_tasks
from analytics.run import Request, run_audit
from analytics.spark_audit import run_task
from analytics.spark_session import find_java
from logcheck.finding import Finding
from logcheck.rule import parse_rules
from ottla.cli.app import make_app
from tests.analytics.audited import RULES, findings_of
from tests.analytics.log_model import make_log


def test_directory_without_logs_fails_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no partition was found in"):
        run_audit(Request(audit=Audit.INTEGRITY, directories=[str(tmp_path)], rules=RULES))


def test_missing_directory_fails_with_one_sentence(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(AuditError, match="cannot be listed"):
        run_audit(Request(audit=Audit.INTEGRITY, directories=[missing], rules=RULES))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["beauty", "."], 2, "'beauty' is not an audit; choose from integrity, compaction"),
        (["integrity", ".", "--rule", "colour=1"], 2, "unknown rule 'colour'"),
        (["integrity", ".", "--rule", "retention.ms=soon"], 2, "'soon' is not a whole number"),
        (["integrity", "/no/such/place"], 1, "cannot be listed"),
        (["snapshot", "."], 2, "a snapshot needs --out FILE"),
    ],
)
def test_wrong_command_prints_one_sentence(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_app()(["audit", *arguments])
    output = capsys.readouterr()
    assert (ended.value.code, output.out) == (code, "")
    [line] = output.err.splitlines()
    assert message in line


def test_missing_java_fails_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuditError, match="install Java 17 or newer"):
        find_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(AuditError, match="is 11: install"):
        find_java()


def test_segments_outside_a_partition_directory_are_a_finding(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    directory.rename(tmp_path / "restored")
    found: list[Finding] = []
    assert find_replicas(str(tmp_path / "restored"), found.append) == []
    assert [each.damage for each in found] == ["unnamed_partition"]


def test_partition_directory_uses_the_checkpoints_beside_it(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    [replica] = find_replicas(str(directory), lambda _: None)
    assert (replica.topic, replica.partition, replica.high_watermark) == ("orders", 0, 400)
    assert findings_of("integrity", directory) == []


def test_directories_marked_for_deletion_are_skipped(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    directory.rename(tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete")
    make_log(partition=1).write(tmp_path)
    replicas = find_replicas(str(tmp_path), lambda _: None)
    assert [replica.partition for replica in replicas] == [1]


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60, 61, 100, 196])
def test_sealed_segment_truncated_anywhere_is_a_finding(tmp_path: Path, size: int) -> None:
    path = make_log().write(tmp_path) / "00000000000000000100.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    found = findings_of("integrity", tmp_path)
    assert {each.damage for each in found} & {"torn_tail", "zero_tail", "offset_gap"}
    others = {"index_position", "time_offset"}
    assert {each.damage for each in found} <= {"torn_tail", "zero_tail", "offset_gap"} | others


@pytest.mark.parametrize("noise", [b"\xff" * 500, bytes(range(256)) * 3, b"PK\x03\x04" * 100])
def test_file_of_noise_is_a_finding(tmp_path: Path, noise: bytes) -> None:
    path = make_log().write(tmp_path) / "00000000000000000100.log"
    path.write_bytes(noise)
    found = findings_of("integrity", tmp_path)
    assert {each.damage for each in found} & {"bad_magic", "bad_length", "torn_tail"}
    assert {Path(each.file).stem for each in found} == {path.stem}


def test_files_that_vanish_while_they_are_read_are_warnings(tmp_path: Path) -> None:
    from analytics.partition_audit import audit_partition
    from kafkawire.ids import TopicPartition

    directory = make_log().write(tmp_path)
    replicas = find_replicas(str(tmp_path), lambda _: None)
    [task] = plan_tasks(Audit.INTEGRITY, {TopicPartition("orders", 0): replicas}, {}, RULES)
    for path in directory.glob("00000000000000000000.*"):
        path.unlink()
    [(found, _)] = audit_partition(task)
    assert {(each.damage, each.severity) for each in found} == {("file_vanished", "warning")}
    assert len(found) == 3


def test_rules_use_kafkas_names() -> None:
    rules = parse_rules(["retention.ms=-1", "delete.retention.ms=5"], is_strict=True)
    assert (rules.retention_ms, rules.delete_retention_ms, rules.is_strict) == (None, 5, True)


def test_exception_of_a_task_is_a_finding_of_its_partition(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    replicas = find_replicas(str(tmp_path), lambda _: None)
    [task] = plan_tasks(Audit.INTEGRITY, group_by_partition(replicas), {}, RULES)
    [([finding], summary)] = run_task(replace(task, checks=("S99",))) or []
    place = finding["what"], finding["severity"], finding["topic"], finding["partition"]
    assert place == ("audit_failed", "error", "orders", 0)
    assert finding["file"] == str(directory)
    assert str(finding["found"]).startswith("ValueError: 'S99' is not a valid Check in ")
    assert summary["bytes"] == replicas[0].size_bytes
