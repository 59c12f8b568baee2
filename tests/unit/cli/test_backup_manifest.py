"""Manifests of backups, and the files that belong into one."""

import json
from typing import Any

import pytest

from ottla.cli.backup.manifest import (
    MAX_DIRECTORIES,
    BackedUpDirectory,
    BackedUpFile,
    Manifest,
    ManifestError,
    read_manifest,
    write_manifest,
)
from ottla.cli.backup.selection import chosen_files, is_coordinator, is_part, is_top_file

DIGEST = "0" * 64
FILE = BackedUpFile(path="orders-0/00000000000000000000.log", size_bytes=7, sha256=DIGEST)
MANIFEST = Manifest(
    began="2026-11-25T20:00:00+00:00",
    ended="2026-11-25T20:00:01+00:00",
    directories=(
        BackedUpDirectory(source="/data", folder="1", was_in_use=True, files=(FILE,)),
        BackedUpDirectory(source="/more", folder="2", was_in_use=False, files=()),
    ),
)


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(write_manifest(MANIFEST)) | fields)


def with_file(**fields: Any) -> str:
    content = json.loads(write_manifest(MANIFEST))
    content["directories"][0]["files"][0] |= fields
    return json.dumps(content)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read_manifest(write_manifest(MANIFEST)) == MANIFEST
    assert (MANIFEST.file_count, MANIFEST.size_bytes) == (1, 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "missing or of a wrong type"),
        (changed(format=2), "format is 2"),
        (changed(began=None), "wrong type"),
        (changed(directories=[{}] * (MAX_DIRECTORIES + 1)), "more than 1000"),
        (changed(directories=[{"files": []}]), "missing"),
        (with_file(path="../x"), "does not stay"),
        (with_file(path="/etc/passwd"), "does not stay"),
        (with_file(path="a\0b"), "does not stay"),
        (with_file(path=""), "does not stay"),
        (with_file(path="\ud800"), "cannot be the name of a file"),
        (with_file(size_bytes=-1), "not a number of bytes"),
        (with_file(size_bytes="1"), "not a number of bytes"),
        (with_file(sha256="x"), "not a SHA-256"),
    ],
)
def test_a_bad_manifest_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        read_manifest(text)


def test_a_path_that_is_not_utf_8_is_kept() -> None:
    # Python's form of the byte 0xff in a name.
    content = json.loads(with_file(path="orders-0/\udcff"))
    assert read_manifest(json.dumps(content)).directories[0].files[0].path == "orders-0/\udcff"


@pytest.mark.parametrize("twice", ["folder", "file"])
def test_a_place_that_is_named_twice_is_refused(twice: str) -> None:
    content = json.loads(write_manifest(MANIFEST))
    if twice == "folder":
        content["directories"][1]["folder"] = "1"
    else:
        content["directories"][0]["files"] *= 2
    with pytest.raises(ManifestError, match="the same"):
        read_manifest(json.dumps(content))


def test_a_limit_of_files_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.backup.manifest.MAX_FILES", 0)
    with pytest.raises(ManifestError, match="1 files, more than 0"):
        read_manifest(write_manifest(MANIFEST))


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("meta.properties", True),
        ("recovery-point-offset-checkpoint", True),
        (".kafka_cleanshutdown", False),
        (".ottla-boot-id", False),
        (".lock", False),
        ("log.jsonl", False),
    ],
)
def test_marks_and_locks_stay_out_of_a_backup(name: str, belongs: bool) -> None:
    assert is_top_file(name, has_coordinator=True) is belongs


def test_a_session_is_backed_up_with_its_coordinator_only() -> None:
    assert is_top_file("coordinator-session", has_coordinator=True)
    assert not is_top_file("coordinator-session", has_coordinator=False)


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        ("orders-0", True),
        ("coordinator", True),
        ("orders-0.0123456789abcdef0123456789abcdef-delete", False),
        ("lost+found", False),
    ],
)
def test_only_partitions_and_the_coordinator_are_parts(name: str, belongs: bool) -> None:
    assert is_part(name) is belongs


def test_the_changing_indexes_of_a_log_in_use_stay_out() -> None:
    names = ["1.log", "1.index", "2.log", "2.index", "2.timeindex", "2.snapshot", "0.log.deleted"]
    assert chosen_files(names, is_in_use=False) == sorted(names[:-1])
    assert chosen_files(names, is_in_use=True) == ["1.index", "1.log", "2.log", "2.snapshot"]
    assert chosen_files(["partition.metadata"], is_in_use=True) == ["partition.metadata"]


def test_a_coordinator_has_other_files() -> None:
    names = ["store", "lock", "wal-1.log", "snap-1.msgpack", "snap-2.msgpack.tmp", "notes"]
    names += ["wal-1.log.discarded", "wal-1.log.discarded.1"]
    assert is_coordinator(names)
    assert not is_coordinator(["1.log"])
    assert chosen_files(names, is_in_use=True) == ["snap-1.msgpack", "store", "wal-1.log"]
