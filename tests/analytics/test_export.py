"""`ottla export`: each visible record once, in whatever state the run before left the target."""

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from pyarrow import dataset, parquet
from typer.testing import CliRunner, Result

from analytics.errors import RecordsError, RecordsUsageError
from analytics.export.exporting import Exported, ExportRequest, run_export
from analytics.export.manifest import (
    FILE_NAME,
    Entry,
    Settings,
    encode_entry,
    encode_settings,
    read_manifest,
)
from analytics.records.offset_choice import Isolation
from kafkawire.ids import TopicPartition
from ottla.cli.app import make_app
from tests.analytics.log_model import Log, compact, make_log
from tests.analytics.planter import Segment
from tests.analytics.test_record_source import grow
from tests.analytics.test_records import with_headers, write_transactions

TIMEOUT_S = 300
FIRST_ID, SECOND_ID = "A" * 22, "B" * 22


def run(root: Path, target: Path, **options: Any) -> list[Exported]:
    return run_export(ExportRequest(directories=[str(root)], target=target, **options))


def offsets_in(target: Path) -> list[int]:
    return [row["offset"] for row in rows_in(target)]


def rows_in(target: Path) -> list[dict[str, Any]]:
    """Return the rows that a reader of the directory finds, in the order of the files' names."""
    return [
        row
        for path in sorted(target.rglob("*.parquet"))
        for row in parquet.ParquetFile(path).read().to_pylist()
    ]


def write_topic_id(root: Path, topic_id: str) -> None:
    (root / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def test_files_have_the_records_with_their_columns(tmp_path: Path) -> None:
    log = with_headers(make_log())
    log.write(tmp_path / "logs")
    [result] = run(tmp_path / "logs", tmp_path / "out")
    assert (result.records, result.files, result.next_offset) == (400, 1, 400)
    expected = [record for batch in log.batches for record in batch.records]
    rows = rows_in(tmp_path / "out")
    assert [list(row) for row in rows[:1]] == [
        ["key", "value", "offset", "timestamp", "timestampType", "headers"]
    ]
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [
        (record.key, record.value, record.offset) for record in expected
    ]
    times = [round(row["timestamp"].timestamp() * 1000) for row in rows]
    assert times == [record.timestamp_ms for record in expected]
    assert [row["offset"] for row in rows if row["headers"]] == list(range(0, 400, 7))


def test_folders_are_partitions_for_readers_of_the_directory(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path / "logs")
    run(tmp_path / "logs", tmp_path / "out")
    table = dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert table.num_rows == 800
    assert set(table.column("partition").to_pylist()) == {0, 1}
    assert set(table.column("topic").to_pylist()) == {"orders"}


def test_later_runs_export_the_records_appended_since(tmp_path: Path) -> None:
    for count in (50, 50, 120, 400):
        grow(tmp_path / "logs", count)
        run(tmp_path / "logs", tmp_path / "out", file_bytes=1)
    assert offsets_in(tmp_path / "out") == list(range(400))
    assert len(list(tmp_path.rglob("*.parquet"))) == 3


def test_a_large_log_is_divided_into_files(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("analytics.records.record_rows.MAX_ROWS", 30)
    make_log().write(tmp_path / "logs")
    [result] = run(tmp_path / "logs", tmp_path / "out", file_bytes=1)
    assert result.files == 14
    assert offsets_in(tmp_path / "out") == list(range(400))


def test_compaction_and_retention_leave_gaps_and_no_duplicates(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    grow(logs, 150)
    run(logs, out)
    for file in (logs / "orders-0").glob("0*"):
        file.unlink()
    compacted = compact(make_log())
    compacted.write(logs)
    run(logs, out)
    remaining = [record.offset for batch in compacted.batches for record in batch.records]
    assert offsets_in(out) == [*range(150), *(each for each in remaining if each >= 150)]
    grown = Log(segments=[(600, replace_offsets(600))], log_start=600)
    for file in (logs / "orders-0").glob("0*"):
        file.unlink()
    grown.write(logs)
    [result] = run(logs, out)
    assert (result.missing, result.first_offset, result.records) == (["400..599"], 600, 5)
    assert offsets_in(out)[-5:] == list(range(600, 605))


def replace_offsets(first: int) -> list[Any]:
    [batch] = make_log(5).batches
    records = tuple(replace(each, offset=each.offset + first) for each in batch.records)
    return [replace(batch, first=first, last=first + 4, records=records)]


def test_transactions_are_exported_once_they_are_decided(tmp_path: Path) -> None:
    write_transactions(tmp_path / "logs")
    for _ in range(2):
        [result] = run(tmp_path / "logs", tmp_path / "out")
    assert offsets_in(tmp_path / "out") == [*range(5, 10), *range(11, 16)]
    assert (result.next_offset, result.records) == (17, 0)
    manifest = read_manifest((tmp_path / "out" / FILE_NAME).read_bytes())
    assert [entry.next_offset for entry in manifest.entries] == [17]
    with pytest.raises(RecordsUsageError, match="isolation level read_committed, without"):
        run(tmp_path / "logs", tmp_path / "out", isolation=Isolation.READ_UNCOMMITTED)


@pytest.mark.parametrize(
    ("stride", "least"), [(5, 40), pytest.param(1, 200, marks=pytest.mark.soak)]
)
def test_a_killed_or_failed_export_continues_without_a_duplicate(
    tmp_path: Path, stride: int, least: int
) -> None:
    for partition in range(2):
        grow(tmp_path / "first", 50, partition=partition)
        grow(tmp_path / "second", 70, partition=partition)
    (tmp_path / "targets").mkdir()
    program = [sys.executable, "-m", "tests.analytics.export_crashes"]
    places = [str(tmp_path / name) for name in ("first", "second", "targets")]
    done = subprocess.run(
        [*program, *places, str(stride)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts, *results = map(json.loads, done.stdout.splitlines())
    assert counts["kills"] > least
    assert counts["failures"] > 5
    assert results == [[[partition, n] for partition in range(2) for n in range(70)]]


def test_each_step_of_a_commit_is_on_the_disk_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log().write(tmp_path / "logs")
    run(tmp_path / "logs", tmp_path / "out")
    make_log(405).write(tmp_path / "logs")
    steps: list[str] = []
    sync, move = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        sync(descriptor)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def note_move(path: Path, new: Path) -> Path:
        steps.append(f"name {path.name} {new.name}")
        return move(path, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_move)
    run(tmp_path / "logs", tmp_path / "out")
    temporary = f".{400:020d}.tmp"
    assert steps == [
        f"sync {temporary}",
        "sync partition=0",
        f"sync {FILE_NAME}",
        f"name {temporary} {400:020d}-{405:020d}.parquet",
        "sync partition=0",
    ]


def test_a_damaged_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path / "logs")
    Segment(tmp_path / "logs" / "orders-0" / f"{100:020d}.log").flip(3, 90)
    damaged, sound = run(tmp_path / "logs", tmp_path / "out")
    assert (damaged.records, sound.records) == (0, 400)
    assert "bad_crc" in (damaged.error or "")
    assert list(tmp_path.rglob("*.tmp")) == []
    skipped, _ = run(tmp_path / "logs", tmp_path / "out", skips_damage=True)
    assert (skipped.records, len(skipped.skipped), skipped.error) == (395, 1, None)


def test_an_unreadable_file_is_the_error_of_its_partition(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path / "logs")
    file = directory / f"{300:020d}.log"
    file.unlink()
    file.mkdir()
    [result] = run(tmp_path / "logs", tmp_path / "out")
    assert result.error == f"{file} cannot be read: Is a directory"


def test_a_topic_that_was_created_again_is_not_mixed_with_the_old_one(tmp_path: Path) -> None:
    make_log(50).write(tmp_path / "logs")
    write_topic_id(tmp_path / "logs", FIRST_ID)
    run(tmp_path / "logs", tmp_path / "out")
    make_log().write(tmp_path / "logs")
    write_topic_id(tmp_path / "logs", SECOND_ID)
    [result] = run(tmp_path / "logs", tmp_path / "out")
    assert "orders-0 was deleted and created again" in (result.error or "")
    assert offsets_in(tmp_path / "out") == list(range(50))


def test_replicas_of_a_deleted_and_of_a_new_topic_are_an_error_of_their_partition(
    tmp_path: Path,
) -> None:
    for place, count, topic_id in (("a", 400, FIRST_ID), ("b", 50, SECOND_ID)):
        make_log(count).write(tmp_path / place)
        write_topic_id(tmp_path / place, topic_id)
    make_log(partition=1).write(tmp_path / "a")
    request = ExportRequest(
        directories=[str(tmp_path / "a"), str(tmp_path / "b")], target=tmp_path / "out"
    )
    mixed, sound = run_export(request)
    assert "orders-0 has replicas with different topic ids" in (mixed.error or "")
    assert (mixed.records, sound.records, sound.error) == (0, 400, None)
    write_topic_id(tmp_path / "a", SECOND_ID)
    assert [each.error for each in run_export(request)] == [None, None]


def test_a_log_that_ends_before_its_export_is_an_error(tmp_path: Path) -> None:
    make_log().write(tmp_path / "a")
    make_log(100).write(tmp_path / "b")
    run(tmp_path / "a", tmp_path / "out")
    [result] = run(tmp_path / "b", tmp_path / "out")
    assert "orders-0 ends at offset 100" in (result.error or "")


def test_two_exports_do_not_run_at_once(tmp_path: Path) -> None:
    make_log().write(tmp_path / "logs")
    run(tmp_path / "logs", tmp_path / "out")
    with (tmp_path / "out" / FILE_NAME).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RecordsError, match=r"another export to .* is running"):
            run(tmp_path / "logs", tmp_path / "out")


def test_a_lost_or_damaged_manifest_repeats_nothing(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    make_log(50).write(logs)
    run(logs, out)
    manifest = out / FILE_NAME
    lines = manifest.read_bytes().splitlines(keepends=True)
    make_log().write(logs)
    run(logs, out)
    whole = manifest.read_bytes()
    manifest.write_bytes(b"".join(lines))
    with pytest.raises(RecordsError, match=r"\.parquet is missing in _manifest.jsonl"):
        run(logs, out)
    manifest.write_bytes(whole.replace(b'"records": 50', b'"records": 51'))
    with pytest.raises(RecordsError, match=r"line 2 of _manifest\.jsonl is damaged"):
        run(logs, out)
    manifest.unlink()
    with pytest.raises(RecordsUsageError, match="holds something else than an export"):
        run(logs, out)
    manifest.write_bytes(whole + b"0000")
    [result] = run(logs, out)
    assert result.records == 0


SETTINGS = Settings(isolation_level="read_committed", to_log_end=False)
ENTRY = Entry(
    topic="orders",
    partition=3,
    topic_id=None,
    first_offset=5,
    next_offset=9,
    records=2,
    size_bytes=100,
)


def test_manifest_survives_an_append_that_stops_anywhere() -> None:
    first, second = encode_settings(SETTINGS), encode_entry(ENTRY)
    for size in range(len(second)):
        manifest = read_manifest(first + second[:size])
        assert (manifest.settings, manifest.entries) == (SETTINGS, [])
        assert manifest.size_bytes == len(first)
    lost_in_part = read_manifest(first + bytes(len(second) - 1) + b"\n")
    assert (lost_in_part.entries, lost_in_part.size_bytes) == ([], len(first))
    whole = read_manifest(first + second)
    assert whole.entries == [ENTRY]
    assert whole.next_offset(TopicPartition("orders", 3)) == 9
    assert whole.next_offset(TopicPartition("orders", 4)) is None


def test_an_entry_without_records_has_no_file() -> None:
    assert ENTRY.file == f"topic=orders/partition=3/{5:020d}-{9:020d}.parquet"
    assert replace(ENTRY, records=0).file is None


def line_of(text: bytes) -> bytes:
    """Return a line of a manifest with a checksum that is right."""
    return b"%08x %s\n" % (crc32c(text), text)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([encode_settings(SETTINGS), encode_entry(ENTRY), encode_entry(ENTRY)], "overlapping"),
        ([line_of(b'{"version": 2}')], "has version 2; this program knows 1"),
        ([line_of(b"{"), encode_settings(SETTINGS)], "line 1 of _manifest.jsonl is damaged"),
        ([line_of(b"[]"), encode_settings(SETTINGS)], "line 1 of _manifest.jsonl is damaged"),
        ([encode_entry(ENTRY)], "lacks a field: 'version'"),
        ([encode_settings(SETTINGS)] * 2, "lacks a field: 'file'"),
    ],
)
def test_a_manifest_with_other_lines_is_refused(lines: list[bytes], sentence: str) -> None:
    with pytest.raises(RecordsError, match=sentence):
        read_manifest(b"".join(lines))


# The command


def command(*words: object) -> Result:
    return CliRunner().invoke(make_app(), ["export", *map(str, words)])


def test_command_prints_the_result_and_its_exit_code(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    make_log().write(logs)
    done = command(logs, "--to", out, "--json")
    assert done.exit_code == 0, done.output
    [row] = json.loads(done.stdout)["partitions"]
    assert (row["topic"], row["next_offset"], row["records"]) == ("orders", 400, 400)
    again = command(logs, "--to", out)
    assert again.stdout.splitlines()[1].split() == ["orders", "0", "400", "400", "0", "0", "-"]
    Segment(logs / "orders-0" / f"{100:020d}.log").flip(3, 90)
    failed = command(logs, "--to", tmp_path / "other")
    assert failed.exit_code == 1
    assert "bad_crc" in failed.stderr
    assert "Traceback" not in failed.output
    skipped = command(logs, "--to", tmp_path / "other", "--skip-damage")
    assert skipped.exit_code == 3
    assert "1 damaged parts were left out" in skipped.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--isolation-level", "none"], "--isolation-level must be read_uncommitted or"),
        (["--topic", "payments"], "no log of payments is in the directories"),
        (["--to", "s3://bucket/out"], "--to must be a local directory"),
    ],
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    make_log().write(tmp_path / "logs")
    done = command(tmp_path / "logs", "--to", tmp_path / "out", *options)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_directory_without_logs_is_wrong_usage(tmp_path: Path) -> None:
    done = command(tmp_path, "--to", tmp_path / "out")
    assert (done.exit_code, "no partition was found" in done.stderr) == (2, True)
    gone = command(tmp_path / "gone", "--to", tmp_path / "out")
    assert (gone.exit_code, "gone cannot be listed" in gone.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
