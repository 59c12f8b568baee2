"""Wrong directories and foreign, truncated or missing files: findings, or an error in one line."""

import errno
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from analytics import discovery, result_files, run
from analytics.discovery import find_replicas, group_by_partition
from analytics.errors import AuditError
from analytics.plan import Audit, plan_tasks
from analytics.result_files import write_result
from analytics.run import Request, Result, run_audit
from analytics.spark_audit import rows_of, run_task
from analytics.spark_session import find_java
from analytics.task import task_from_json
from analytics.verdict import judge
from logcheck.finding import Finding
from logcheck.local_file import MAX_WHOLE_BYTES
from logcheck.replica_files import Checkpoints, read_checkpoints
from logcheck.rule import parse_rules
from ottla.cli.app import make_app
from ottla.cli.logs.verify import segment_bytes, verify_directories
from tests.analytics.audited import RULES, findings_of
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.log_model import compact, make_log


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


def become_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def become_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def become_giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_WHOLE_BYTES + 1)


FILES = ["00000000000000000100.log", "leader-epoch-checkpoint", "../replication-offset-checkpoint"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [become_fifo, become_link, become_loop])
def test_file_of_another_type_is_a_finding(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    directory = make_log().write(tmp_path)
    change(directory / name)
    found = findings_of("integrity", tmp_path)
    unreadable = [each for each in found if each.damage == "unreadable_file"]
    assert [Path(each.file).name for each in unreadable] == [Path(name).name]
    [result, *_] = verify_directories([tmp_path])
    kinds = {each.damage for each in result.findings}
    assert name.startswith("..") or "unreadable_file" in kinds
    assert segment_bytes([tmp_path]) > 0


@pytest.mark.parametrize("name", [*FILES[1:], "00000000000000000100.index"])
def test_file_too_large_for_its_kind_is_a_finding(tmp_path: Path, name: str) -> None:
    directory = make_log().write(tmp_path)
    become_giant(directory / name)
    found = findings_of("integrity", tmp_path)
    assert {each.damage for each in found} == {"unreadable_file"}


def test_zeros_of_many_gigabytes_are_not_read(tmp_path: Path) -> None:
    path = make_log().write(tmp_path) / "00000000000000000300.log"
    size_bytes = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(2**40)
    [found] = findings_of("integrity", tmp_path)
    assert (found.damage, found.position, found.severity) == ("zero_tail", size_bytes, "note")


def test_name_that_is_not_utf8_is_a_finding_that_can_be_written(tmp_path: Path) -> None:
    root = Path(os.fsdecode(bytes(tmp_path) + b"/broker\xff"))
    directory = make_log().write(root)
    (directory / os.fsdecode(b"orders\xfe.txt")).touch()
    (root / os.fsdecode(b"other\xfe")).touch()
    replicas = find_replicas(str(root), lambda _: None)
    [task] = plan_tasks(Audit.INTEGRITY, group_by_partition(replicas), {}, RULES)
    [([row], summary)] = run_task(task_from_json(task.to_json())) or []
    assert (row["what"], row["replica"]) == ("foreign_file", f"{tmp_path}/broker\\xff")
    assert row["file"] == f"{tmp_path}/broker\\xff/orders-0/orders\\xfe.txt"
    verdict = judge(Audit.INTEGRITY, [row], [summary], 1.0)
    result = Result(verdict=verdict, findings=[row], summaries=[summary])
    write_result(result, tmp_path / "out")
    assert "orders\\xfe.txt" in (tmp_path / "out" / "report.html").read_text()
    assert parquet.read_table(tmp_path / "out" / "findings.parquet").to_pylist() == [row]


def test_finding_that_does_not_depend_on_keys_is_reported_once(tmp_path: Path) -> None:
    raw = make_log()
    log, _ = COMPACTION["a record without a key"](raw, compact(raw, horizon_ms=2**50))
    log.write(tmp_path)
    replicas = find_replicas(str(tmp_path), lambda _: None)
    [task] = plan_tasks(Audit.COMPACTION, group_by_partition(replicas), {}, RULES)
    shards = [replace(task, shard=shard, shard_count=8) for shard in range(8)]
    rows = rows_of(run_task(shard) for shard in shards)
    assert [row["what"] for row in rows].count("no_key") == 1


def clean_result() -> Result:
    return Result(verdict=judge(Audit.INTEGRITY, [], [], 1.0), findings=[], summaries=[])


def test_file_that_cannot_be_written_is_named_after_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    write_result(clean_result(), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def fail(_result: Result, _file: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setitem(result_files._WRITERS, "report.html", fail)
    monkeypatch.setattr(run, "run_audit", lambda _: clean_result())
    with pytest.raises(SystemExit) as ended:
        make_app()(["audit", "integrity", str(tmp_path), "--out", str(out)])
    output = capsys.readouterr()
    assert ended.value.code == 1
    assert output.out.startswith("integrity: clean; ")
    assert output.err == f"ottla: {out}/report.html cannot be written: No space left on device\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_audits_with_one_output_directory_do_not_mix_their_files(tmp_path: Path) -> None:
    """While one audit publishes its files, another one must wait."""
    out = tmp_path / "out"
    out.mkdir()
    lock = os.open(out, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write_result, clean_result(), out)
        with pytest.raises(TimeoutError):
            writing.result(timeout=0.05)
        assert not (out / "verdict.json").exists()
        os.close(lock)
        writing.result()
    assert sorted(each.name for each in out.iterdir()) == [
        "findings.parquet",
        "report.html",
        "verdict.json",
    ]


def test_partition_that_a_live_broker_moves_away_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_log().write(tmp_path / "one")

    def read_and_move(*arguments: Any) -> Checkpoints:
        checkpoints = read_checkpoints(*arguments)
        directory.rename(tmp_path / directory.name)
        return checkpoints

    monkeypatch.setattr(discovery, "read_checkpoints", read_and_move)
    found: list[Finding] = []
    assert find_replicas(str(tmp_path / "one"), found.append) == []
    assert [(each.damage, each.severity) for each in found] == [("file_vanished", "warning")]
