"""`ottla logs` on files: its output, findings and exit codes."""

import errno
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire.records import BATCH_HEADER_BYTES
from logcheck.finding import Damage
from logcheck.local_file import FileSource
from logcheck.offset_index_check import PER_APPEND, PER_BATCH
from logcheck.rule import parse_rules
from ottla.cli.logs import partition_verification
from ottla.cli.logs import verify as verify_module
from ottla.cli.logs.partition_result import PartitionResult
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.integration.cli.conftest import RunOttla
from tests.unit.logcheck.partition_bytes import (
    FIRST_TIMESTAMP_MS,
    RECORDS_PER_BATCH,
    build_batch,
    positions_of,
    seal,
)

BATCHES_PER_SEGMENT = 4
SEGMENT_COUNT = 3
RECORDS_PER_SEGMENT = BATCHES_PER_SEGMENT * RECORDS_PER_BATCH
LOG_END_OFFSET = SEGMENT_COUNT * RECORDS_PER_SEGMENT
SUFFIXES = (".log", ".index", ".timeindex")


def newest_ms(batch: int) -> int:
    return FIRST_TIMESTAMP_MS + batch * 10 + RECORDS_PER_BATCH - 1


def write_segment(directory: Path, number: int) -> None:
    """Write segment `number` with both indexes; its number is also its leader epoch."""
    base_offset = number * RECORDS_PER_SEGMENT
    first = number * BATCHES_PER_SEGMENT
    batches = [
        build_batch(
            batch * RECORDS_PER_BATCH,
            timestamp_ms=FIRST_TIMESTAMP_MS + batch * 10,
            leader_epoch=number,
        )
        for batch in range(first, first + BATCHES_PER_SEGMENT)
    ]
    name = directory / f"{base_offset:020d}"
    last_relative = [
        slot * RECORDS_PER_BATCH + RECORDS_PER_BATCH - 1 for slot in range(BATCHES_PER_SEGMENT)
    ]
    positions = positions_of(batches)
    name.with_suffix(".log").write_bytes(b"".join(batches))
    name.with_suffix(".index").write_bytes(
        b"".join(struct.pack(">ii", last_relative[slot], positions[slot]) for slot in (1, 2))
    )
    name.with_suffix(".timeindex").write_bytes(
        b"".join(
            struct.pack(">qi", newest_ms(first + slot), last_relative[slot]) for slot in (1, 3)
        )
    )


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A healthy log directory with one partition, `orders-0`."""
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    for number in range(SEGMENT_COUNT):
        write_segment(partition, number)
    epochs = [f"{number} {number * RECORDS_PER_SEGMENT}" for number in range(SEGMENT_COUNT)]
    (partition / "leader-epoch-checkpoint").write_text("\n".join(["0", "3", *epochs, ""]))
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    checkpoint(partition.parent, "recovery-point-offset-checkpoint", LOG_END_OFFSET)
    checkpoint(partition.parent, "replication-offset-checkpoint", LOG_END_OFFSET)
    checkpoint(partition.parent, "log-start-offset-checkpoint", 0)
    return partition.parent


def checkpoint(directory: Path, name: str, offset: int) -> None:
    (directory / name).write_text(f"0\n1\norders 0 {offset}\n")


def segment(directory: Path, number: int, suffix: str = ".log") -> Path:
    return directory / "orders-0" / f"{number * RECORDS_PER_SEGMENT:020d}{suffix}"


def damages(results: list[PartitionResult]) -> list[Damage]:
    return [finding.damage for result in results for finding in result.findings]


def verify(directory: Path, *rules: str) -> list[Damage]:
    options = VerifyOptions(with_records=True, rules=parse_rules(rules))
    return damages(verify_directories([directory], options))


def test_healthy_directory_verifies_clean(run_ottla: RunOttla, log_directory: Path) -> None:
    verified = run_ottla("logs", "verify", log_directory)
    assert verified.stderr == ""
    assert verified.returncode == 0
    header, row = verified.stdout.splitlines()
    assert header.split() == [
        "partition", "segments", "batches", "records", "offsets", "inconsistencies",
    ]  # fmt: skip
    assert row.split() == ["orders-0", "3", "12", "36", "0..35", "0"]


def test_single_partition_can_be_verified(log_directory: Path) -> None:
    [result] = verify_directories([log_directory / "orders-0"])
    assert (result.findings, result.segment_count) == ([], SEGMENT_COUNT)


def test_every_file_of_a_healthy_partition_can_be_dumped(
    run_ottla: RunOttla, log_directory: Path
) -> None:
    files = [path for path in sorted(log_directory.rglob("*")) if path.is_file()]
    dumped = run_ottla("logs", "dump", "--deep", "--json", *files)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    items = [json.loads(line) for line in dumped.stdout.splitlines()]
    types = {item["type"] for item in items}
    assert types == {
        "file", "batch", "record", "index_entry", "time_index_entry", "checkpoint_entry",
        "epoch_entry", "property", "summary",
    }  # fmt: skip
    assert sum(item["type"] == "record" for item in items) == LOG_END_OFFSET
    assert {item["finding_count"] for item in items if item["type"] == "summary"} == {0}


def test_finding_is_printed_with_its_position_and_sets_exit_code_3(
    run_ottla: RunOttla, log_directory: Path
) -> None:
    path = segment(log_directory, 1)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    position = len(data) - len(build_batch(0))
    for command in (("dump", path), ("dump", "--summary", path), ("verify", log_directory)):
        run = run_ottla("logs", *command)
        assert run.returncode == 3
        assert f"! {path}: bad_crc at {position}, offset 21: " in run.stdout
    dumped = run_ottla("logs", "dump", "--json", path)
    assert dumped.returncode == 3
    [finding] = [
        item
        for line in dumped.stdout.splitlines()
        if (item := json.loads(line))["type"] == "finding"
    ]
    assert (finding["damage"], finding["position"], finding["offset"]) == ("bad_crc", position, 21)
    verified = run_ottla("logs", "verify", "--json", log_directory)
    assert verified.returncode == 3
    assert json.loads(verified.stdout)[0]["findings"] == [finding]


def test_summary_omits_batches(run_ottla: RunOttla, log_directory: Path) -> None:
    dumped = run_ottla("logs", "dump", "--summary", segment(log_directory, 0))
    first, last = dumped.stdout.splitlines()
    assert first.endswith(f"segment, {segment(log_directory, 0).stat().st_size} B")
    assert last.startswith("  = 4 batches, 12 records, offsets 0..11, newest ")


def test_unknown_files_are_skipped_with_a_message(run_ottla: RunOttla, log_directory: Path) -> None:
    other = log_directory / "orders-0" / "00000000000000000012.other"
    other.write_bytes(b"")
    dumped = run_ottla("logs", "dump", "--summary", other, segment(log_directory, 0))
    assert dumped.returncode == 0
    assert dumped.stderr.startswith(f"ottla: {other}: skipped")
    assert "4 batches" in dumped.stdout


def test_damaged_producer_snapshot_is_reported(run_ottla: RunOttla, log_directory: Path) -> None:
    snapshot = log_directory / "orders-0" / "00000000000000000012.snapshot"
    snapshot.write_bytes(bytes.fromhex("000148674bc800000000"))
    dumped = run_ottla("logs", "dump", "--summary", snapshot)
    assert dumped.returncode == 3
    assert "bad_snapshot at 2" in dumped.stdout
    verified = run_ottla("logs", "verify", log_directory)
    assert verified.returncode == 3


def test_missing_path_is_wrong_usage(run_ottla: RunOttla, tmp_path: Path) -> None:
    for command in ("dump", "verify"):
        run = run_ottla("logs", command, tmp_path / "nowhere")
        assert run.returncode == 2
        assert "does not exist" in run.stderr


def test_torn_tail_of_a_crashed_log_is_printed_as_a_note(
    run_ottla: RunOttla, log_directory: Path
) -> None:
    with segment(log_directory, 2).open("ab") as file:
        file.write(build_batch(LOG_END_OFFSET)[:-5])
    verified = run_ottla("logs", "verify", log_directory)
    assert verified.returncode == 0
    assert verified.stdout.startswith(f"  {segment(log_directory, 2)}: torn_tail at ")


def test_partition_directory_with_any_name_can_be_verified(log_directory: Path) -> None:
    copy = (log_directory / "orders-0").rename(log_directory / "copy of orders")
    [result] = verify_directories([copy], VerifyOptions(with_records=True))
    assert (result.findings, result.name) == ([], "copy of orders")


def test_only_names_of_twenty_digits_are_segments(log_directory: Path) -> None:
    for name in ("foo.log", "0.log", "notes"):
        (log_directory / "orders-0" / name).write_bytes(b"x")
    assert verify(log_directory) == [Damage.FOREIGN_FILE] * 3
    (log_directory / "copies").mkdir()
    (log_directory / "copies" / "0.log").write_bytes(b"x")
    assert len(verify_directories([log_directory])) == 1


def test_directory_or_broken_link_in_place_of_a_segment_is_a_finding(
    run_ottla: RunOttla, log_directory: Path
) -> None:
    segment(log_directory, 9).mkdir()
    segment(log_directory, 8).symlink_to("nowhere")
    verified = run_ottla("logs", "verify", log_directory)
    assert verified.returncode == 3, verified.stderr
    assert verified.stdout.count(Damage.UNREADABLE_FILE) == 2


def test_partition_without_any_segment_is_compared_with_its_checkpoints(
    log_directory: Path,
) -> None:
    for number in range(SEGMENT_COUNT):
        segment(log_directory, number).unlink()
    assert verify(log_directory).count(Damage.CHECKPOINT_BEYOND) == 2


@pytest.mark.parametrize("kept", [(), ("partition.metadata",)])
def test_partition_that_lost_all_files_of_its_log_is_compared_with_its_checkpoints(
    log_directory: Path, kept: tuple[str, ...]
) -> None:
    shutil.copytree(log_directory / "orders-0", log_directory / "other-0")
    for path in (log_directory / "orders-0").iterdir():
        if path.name not in kept:
            path.unlink()
    # As while a broker creates a partition.
    (log_directory / "new-0").mkdir()
    lost, other = verify_directories([log_directory])
    assert (lost.name, other.name, other.findings) == ("orders-0", "other-0", [])
    assert [each.damage for each in lost.findings] == [Damage.CHECKPOINT_BEYOND] * 2


def test_partition_that_cannot_be_listed_is_a_finding(
    run_ottla: RunOttla, log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(log_directory / "orders-0", log_directory / "locked-0")
    (log_directory / "lost+found").mkdir()

    def deny(directory: Path | str) -> None:
        if Path(directory).name in {"locked-0", "lost+found"}:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))

    def list_names(directory: Path | str) -> list[str]:
        deny(directory)
        return listdir(directory)

    def scan(directory: Path | str) -> "os._ScandirIterator[str]":
        deny(directory)
        return scandir(directory)

    listdir, scandir = os.listdir, os.scandir
    monkeypatch.setattr(os, "listdir", list_names)
    monkeypatch.setattr(os, "scandir", scan)
    verified = run_ottla("logs", "verify", "--json", log_directory)
    monkeypatch.undo()
    assert verified.returncode == 3, verified
    locked, orders = json.loads(verified.stdout)
    [finding] = locked["findings"]
    assert (finding["damage"], finding["file"]) == (
        Damage.UNREADABLE_FILE,
        str(log_directory / "locked-0"),
    )
    assert orders["findings"] == []


def test_torn_tail_below_the_recovery_point_is_a_finding(log_directory: Path) -> None:
    path = segment(log_directory, 2)
    path.write_bytes(path.read_bytes()[:-5])
    found = verify(log_directory)
    assert Damage.TORN_TAIL in found
    # The checkpoints and the time index refer to the lost records.
    assert found.count(Damage.CHECKPOINT_BEYOND) == 2
    assert Damage.TIME_OFFSET in found


def test_files_that_a_broker_creates_or_deletes_meanwhile_are_no_findings(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = segment(log_directory, 2, ".index")
    data = index.read_bytes()
    index.unlink()
    snapshot = segment(log_directory, 1, ".snapshot")
    snapshot.write_bytes(b"")

    class ChangingSource(FileSource):
        def __init__(self, file: Path | str) -> None:
            super().__init__(file)
            index.write_bytes(data)
            snapshot.unlink(missing_ok=True)

    monkeypatch.setattr(partition_verification, "FileSource", ChangingSource)
    assert verify(log_directory) == []


@pytest.mark.parametrize("opening", range(1, 4))
def test_segments_that_a_cleaner_replaces_meanwhile_are_no_findings(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch, opening: int
) -> None:
    """The cleaned segment holds the batches of the first two and takes the name of the first."""
    opened: list[str] = []

    class ChangingSource(FileSource):
        def __init__(self, file: Path | str) -> None:
            opened.append(str(file))
            if len(opened) == opening:
                swap_in_cleaned(log_directory)
            super().__init__(file)

    monkeypatch.setattr(partition_verification, "FileSource", ChangingSource)
    results = verify_directories([log_directory], VerifyOptions(with_records=True))
    assert [each.reported for each in results] == [[]]
    assert len(opened) >= opening


def swap_in_cleaned(log_directory: Path) -> None:
    """Replace the first two segments by one, in the order of a broker's renames."""
    data = b"".join(segment(log_directory, number).read_bytes() for number in (0, 1))
    swapped = {suffix: segment(log_directory, 0, f"{suffix}.swap") for suffix in SUFFIXES}
    swapped[".log"].write_bytes(data)
    batch_bytes = len(data) // (2 * BATCHES_PER_SEGMENT)
    last_offset = 2 * RECORDS_PER_SEGMENT - 1
    entry = struct.pack(">ii", last_offset, len(data) - batch_bytes)
    swapped[".index"].write_bytes(entry)
    newest = newest_ms(2 * BATCHES_PER_SEGMENT - 1)
    swapped[".timeindex"].write_bytes(struct.pack(">qi", newest, last_offset))
    for number in (0, 1):
        for suffix in SUFFIXES:
            path = segment(log_directory, number, suffix)
            path.rename(path.with_name(path.name + ".deleted"))
    for suffix, path in swapped.items():
        path.rename(segment(log_directory, 0, suffix))


def test_segment_that_a_killed_broker_was_swapping_in_is_verified(log_directory: Path) -> None:
    middle = segment(log_directory, 1)
    for path in middle.parent.glob(f"{middle.stem}.*"):
        path.rename(path.with_name(path.name + ".swap"))
    [result] = verify_directories([log_directory])
    assert (damages([result]), result.notes, result.segment_count) == ([], [], SEGMENT_COUNT)
    swapped = middle.with_name(middle.name + ".swap")
    swapped.write_bytes(swapped.read_bytes()[:-1] + b"\xff")
    assert verify(log_directory) == [Damage.BAD_CRC]


def test_time_index_of_the_active_segment_may_be_incomplete(log_directory: Path) -> None:
    segment(log_directory, 2, ".timeindex").write_bytes(bytes(120))
    assert verify(log_directory) == []
    segment(log_directory, 1, ".timeindex").write_bytes(bytes(120))
    assert verify(log_directory) == [Damage.TIME_LAST_ENTRY]


def test_partitions_pending_deletion_are_not_verified(log_directory: Path) -> None:
    (log_directory / "orders-0").rename(log_directory / f"orders-0.{'0' * 32}-delete")
    for path in log_directory.glob("*-checkpoint"):
        path.write_text("0\n0\n")
    assert verify_directories([log_directory]) == []


def test_cleaner_point_beyond_the_log_is_reported(log_directory: Path) -> None:
    active = (SEGMENT_COUNT - 1) * RECORDS_PER_SEGMENT
    checkpoint(log_directory, "cleaner-offset-checkpoint", active)
    assert verify(log_directory) == []
    checkpoint(log_directory, "cleaner-offset-checkpoint", LOG_END_OFFSET + 1)
    assert verify(log_directory) == [Damage.CHECKPOINT_BEYOND]


def drop_first_batch(log_directory: Path, number: int) -> None:
    """Write a segment that lacks its first batch, without indexes."""
    write_segment(log_directory / "orders-0", number)
    path = segment(log_directory, number)
    size = len(build_batch(0))
    path.write_bytes(path.read_bytes()[size:])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()


def test_missing_offsets_are_an_error_only_if_no_cleaner_can_explain_them(
    log_directory: Path,
) -> None:
    drop_first_batch(log_directory, 1)
    no_indexes = [Damage.INDEX_MISSING] * 2
    assert verify(log_directory) == no_indexes, "a new replica of a compacted topic"
    for rule in ("cleanup.policy=delete", "orders:cleanup.policy=delete"):
        assert sorted(verify(log_directory, rule)) == [*no_indexes, Damage.OFFSET_GAP]
    assert verify(log_directory, "other:cleanup.policy=delete") == no_indexes
    checkpoint(log_directory, "cleaner-offset-checkpoint", RECORDS_PER_SEGMENT)
    assert verify(log_directory) == no_indexes, "killed before it wrote its checkpoint"
    checkpoint(log_directory, "cleaner-offset-checkpoint", 2 * RECORDS_PER_SEGMENT)
    assert verify(log_directory) == no_indexes


def test_missing_offsets_that_a_cleaner_may_explain_are_a_note(log_directory: Path) -> None:
    drop_first_batch(log_directory, 1)
    [result] = verify_directories([log_directory], VerifyOptions(with_records=True))
    assert [note.damage for note in result.notes] == [Damage.OFFSET_GAP]


def test_old_index_shape_is_reported_with_strict_indexes_only(
    run_ottla: RunOttla, log_directory: Path
) -> None:
    path = segment(log_directory, 0, ".index")
    _offset, position = struct.unpack(">ii", path.read_bytes()[:8])
    # One entry for two batches: the position of the first, the last offset of the second.
    path.write_bytes(struct.pack(">ii", 3 * RECORDS_PER_BATCH - 1, position))
    verified = run_ottla("logs", "verify", "--json", log_directory)
    assert verified.returncode == 0
    shapes = json.loads(verified.stdout)[0]["index_shapes"]
    assert shapes == {PER_BATCH: 2, PER_APPEND: 1}
    strictly = run_ottla("logs", "verify", "--strict-indexes", log_directory)
    assert strictly.returncode == 3
    assert "old_index_shape" in strictly.stdout


@pytest.fixture
def second(log_directory: Path) -> Path:
    """A replica of the partition on another broker."""
    copy = log_directory.with_name("other")
    shutil.copytree(log_directory, copy)
    return copy


def compare(*directories: Path) -> list[Damage]:
    return damages(verify_directories(directories))


def test_rows_for_several_log_directories_name_the_directory(
    run_ottla: RunOttla, log_directory: Path, second: Path
) -> None:
    rows = run_ottla("logs", "verify", str(log_directory), str(second)).stdout.splitlines()[1:]
    named = {row.split()[0] for row in rows}
    assert {str(log_directory), str(second)} == {str(Path(name).parent) for name in named}


def test_command_that_checks_nothing_fails(run_ottla: RunOttla, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    verified = run_ottla("logs", "verify", empty)
    assert (verified.returncode, verified.stdout) == (1, "")
    assert f"no partition was found in {empty}" in verified.stderr
    (other := tmp_path / "notes.txt").write_text("")
    dumped = run_ottla("logs", "dump", other)
    assert (dumped.returncode, dumped.stdout) == (1, "")
    assert "none of these files" in dumped.stderr


def test_replica_without_committed_batches_is_reported(log_directory: Path, second: Path) -> None:
    path = segment(second, 2)
    path.write_bytes(path.read_bytes()[: -len(build_batch(0))])
    assert Damage.REPLICA_DIFFERS in compare(log_directory, second)
    assert Damage.REPLICA_DIFFERS in compare(second, log_directory)


def test_invalid_records_are_reported_with_deep_only(log_directory: Path) -> None:
    """The checksum of the batch is correct, but its records are malformed."""
    path = segment(log_directory, 2)
    data = bytearray(path.read_bytes())
    size = len(build_batch(0))
    last = data[-size:]
    last[BATCH_HEADER_BYTES] = 2
    path.write_bytes(bytes(data[:-size]) + bytes(seal(last)))
    assert damages(verify_directories([log_directory])) == []
    assert verify(log_directory) == [Damage.BAD_RECORDS]


def test_exception_of_one_partition_is_its_finding(
    log_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(log_directory / "orders-0", log_directory / "orders-1")
    check = partition_verification.verify_partition

    def fail_first(directory: Path, *args: Any, **options: Any) -> PartitionResult:
        if directory.name == "orders-0":
            raise IndexError("list index out of range")
        return check(directory, *args, **options)

    monkeypatch.setattr(verify_module, "verify_partition", fail_first)
    broken, sound = verify_directories([log_directory])
    [finding] = broken.findings
    assert (finding.damage, finding.file) == (Damage.AUDIT_FAILED, str(log_directory / "orders-0"))
    assert finding.found == "IndexError: list index out of range in fail_first, test_logs.py"
    assert (sound.findings, sound.record_count) == ([], LOG_END_OFFSET)
